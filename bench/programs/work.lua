-- SPDX-License-Identifier: Apache-2.0
-- work.lua N: calls, tables, strings and floats for an interpreter; prints one line.
local n = tonumber(arg[1]) or 20
local function fib(k) if k < 2 then return k end return fib(k - 1) + fib(k - 2) end
local words, seen, x = {}, {}, 1
for i = 1, n * 15000 do
    x = (x * 1103515245 + 12345) % 2147483648
    local k = x % 1009
    seen[k] = (seen[k] or 0) + i % 7
    if i % 64 == 0 then words[#words + 1] = string.format("%d:%s", k, ("ab"):rep(k % 5)) end
end
table.sort(words)
local sum = 0.0
for i = 1, n * 20000 do sum = sum + math.sqrt(i) / (i % 3 + 1) end
print(fib(n + 6), #words, words[1], seen[1], sum)
