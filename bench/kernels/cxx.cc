/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of C++: containers, algorithms, virtual functions, strings. */
#include "kernels.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <unordered_map>
#include <vector>

namespace {

KEEP void standard_sort(data *d)
{
    std::copy(d->i, d->i + 128, d->j);
    std::sort(d->j, d->j + 128);
}

KEEP void accumulate(data *d)
{
    d->result = std::accumulate(d->q, d->q + d->n, uint64_t{0},
                                [](uint64_t s, uint64_t v) { return s ^ (v + (s << 1)); });
}

KEEP void transform(data *d)
{
    std::transform(d->x, d->x + d->n, d->y, d->z, [](double a, double b) { return a > b ? a - b : b * 0.5; });
}

KEEP void find_in_map(data *d)
{
    static std::map<int, int> m;
    if (m.empty())
        for (int k = 0; k < 200; k++)
            m[(k * 37) % 200] = k;
    int64_t s = 0;
    for (size_t e = 0; e < 64; e++)
        s += m.find(d->i[e] % 200)->second;
    d->result = static_cast<uint64_t>(s);
}

KEEP void find_in_table(data *d)
{
    static std::unordered_map<int, int> m;
    if (m.empty())
        for (int k = 0; k < 200; k++)
            m[k * 11] = k;
    int64_t s = 0;
    for (size_t e = 0; e < 64; e++) {
        auto at = m.find(d->i[e] % 2200);
        s += at == m.end() ? 1 : at->second;
    }
    d->result = static_cast<uint64_t>(s);
}

struct shape {
    virtual ~shape() = default;
    virtual double area(double x) const = 0;
};
struct square : shape {
    double area(double x) const override { return x * x; }
};
struct scc : shape {
    double area(double x) const override { return x * x * 3.14159; }
};
struct triangle : shape {
    double area(double x) const override { return x * x * 0.5; }
};

KEEP void virtual_calls(data *d)
{
    static std::vector<std::unique_ptr<shape>> shapes;
    if (shapes.empty())
        for (int k = 0; k < 8; k++) {
            if (k % 3 == 0)
                shapes.push_back(std::make_unique<square>());
            else if (k % 3 == 1)
                shapes.push_back(std::make_unique<scc>());
            else
                shapes.push_back(std::make_unique<triangle>());
        }
    double s = 0;
    for (size_t e = 0; e < 128; e++)
        s += shapes[e & 7]->area(d->x[e]);
    d->result = static_cast<uint64_t>(s);
}

KEEP void grow_vector(data *d)
{
    std::vector<int32_t> v;
    for (size_t e = 0; e < 200; e++)
        v.push_back(d->i[e]);
    d->result = v.size();
}

KEEP void append_strings(data *d)
{
    std::string s;
    for (size_t e = 0; e < 64; e++) {
        s += static_cast<char>(d->s[e]);
        s.append("and", 3);
    }
    d->result = s.size();
}

KEEP void matrix_template(data *d)
{
    struct vec3 {
        double a, b, c;
        vec3 operator+(const vec3 &o) const { return {a + o.a, b + o.b, c + o.c}; }
        vec3 operator*(double f) const { return {a * f, b * f, c * f}; }
    };
    vec3 s{0, 0, 0};
    for (size_t e = 0; e + 3 <= d->n; e += 3)
        s = s + vec3{d->x[e], d->x[e + 1], d->x[e + 2]} * 0.5;
    d->result = static_cast<uint64_t>(s.a + s.b + s.c);
}

} // namespace

extern "C" {
extern const struct kernel cxx_kernels[] = {
    {"standard-sort", "sorting", standard_sort, 0},
    {"accumulate", "integer", accumulate, LARGE},
    {"transform", "float", transform, LARGE | LEARNED},
    {"find-in-map", "gather", find_in_map, 0},
    {"find-in-table", "hashing", find_in_table, 0},
    {"virtual-calls", "calls", virtual_calls, 0},
    {"grow-vector", "library", grow_vector, 0},
    {"append-strings", "strings", append_strings, 0},
    {"matrix-template", "float", matrix_template, LARGE},
    {nullptr, nullptr, nullptr, 0},
};
}
