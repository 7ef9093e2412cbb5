// Which processes of this user on this machine are multiplying right now.
//
// A table in shared memory (/dev/shm), one slot for each process: a random owner and the time of its last product.
// No locks and no clean-up: a process that ends stops renewing its time and is forgotten after 20 ms. Where there is
// no shared memory, a process counts itself only.
#pragma once

namespace triton_ads {

// Renews this process's entry and counts the processes active within the last 20 ms, itself included: at least 1.
// Costs a clock reading; the table is read at most once a millisecond.
int active_processes();

}  // namespace triton_ads
