// Which level runs, and how its work is shared out among threads.
#pragma once
#include "table.h"

#include <string>
#include <vector>

namespace undrift {

using Work = void (*)(const Run &, size_t begin, size_t end, double *scratch);

std::vector<std::string> levels();    // what this machine can run, best first
bool choose(const std::string &name); // false if this machine or this build lacks the level
const Table &table();                 // the chosen level; a call asks once, before it unlocks the interpreter

// Run all units on up to `threads` threads. Learners are independent, so the result does not depend on their number.
void share(const Table &level, Work work, const Run &run, size_t threads);

double *scratch_of(size_t doubles); // this thread's own

} // namespace undrift
