//! The reference interpreter: the oracle for everything else.
