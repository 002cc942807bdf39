#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| properties::retry_after::holds(bytes));
