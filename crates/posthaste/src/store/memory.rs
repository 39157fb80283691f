//! The reference store: the contract in plain code, for tests and for reading.
