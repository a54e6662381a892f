// SPDX-License-Identifier: Apache-2.0
//
// switches: a switch as a table inside a try block, whose cases throw, return, fall through and run destructors, in a
// loop that goes on; the rare cases end up in cold parts of functions.
#include "here.h"
#include <stdexcept>
#include <string>

static unsigned long ended;
struct Note {
    std::string text;
    explicit Note(int n) : text(std::to_string(n) + " is a text that does not fit inside a string object") {}
    ~Note()
    {
        HERE(ended);
        ended++;
    }
};

[[gnu::cold, gnu::noinline]] static int rare(int n)
{
    Note note(n);
    if (n % 2)
        throw std::out_of_range(note.text);
    return static_cast<int>(note.text.size());
}

[[gnu::noinline]] static int pick(unsigned which, int n)
{
    Note note(n);
    switch (which) {
    case 0: return n + 1;
    case 1: throw n;
    case 2: n += rare(n); [[fallthrough]];
    case 3: return n * 2;
    case 4: throw std::runtime_error(note.text);
    case 5: {
        Note inner(n + 1);
        if (n > 500)
            throw 'c';
        return static_cast<int>(inner.text.size());
    }
    case 6: throw note.text;
    case 7: return -n;
    default: return 0;
    }
}

int main()
{
    long sum = 0;
    unsigned long caught = 0;
    for (int i = 0; i < 1000; i++) {
        try {
            HERE(tried);
            sum += pick(static_cast<unsigned>(i) % 9, i);
        } catch (int n) {
            HERE(caught);
            sum += n, caught++;
        } catch (const std::exception &e) {
            HERE(caught);
            sum += e.what()[0], caught++;
        } catch (const std::string &s) {
            HERE(caught);
            sum += static_cast<long>(s.size()), caught++;
        } catch (...) {
            HERE(caught);
            sum ^= 1, caught++;
        }
    }
    printf("%ld %lu\n", sum, caught);
    expect("tried", 1000);
    expect("caught", caught);
    expect("ended", ended);
    return 0;
}
