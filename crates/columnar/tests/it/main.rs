//! Damaged files are errors: nothing panics, nothing is printed, and no length in a file decides how much is allocated.

mod allocation;
mod damage;
