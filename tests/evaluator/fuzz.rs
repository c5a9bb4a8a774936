//! Random modules, and real policies with random changes. The generator and the comparison with OPA are those of the
//! evaluator's tests.

#[path = "../../src/rego/tests/opa/fuzz/comparison.rs"]
mod comparison;
#[path = "../../src/rego/tests/opa/fuzz/generator.rs"]
#[expect(dead_code, reason = "the evaluator's own tests also make modules smaller")]
mod generator;
mod reads;
mod written;
