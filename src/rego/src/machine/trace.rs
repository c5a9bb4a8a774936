//! Steps that record values: those that are printed, and those at the points of a trace.

use regorus::Value;

use super::{Machine, limit::Halt};
use crate::program::Operand;

impl Machine<'_, '_> {
    /// Records the values of collections at a point, or as a `print`.
    pub(super) fn note(&mut self, point: Option<usize>, arguments: &[Operand], base: usize) -> Result<(), Halt> {
        self.shared.gauge.charge(1 + arguments.len())?;
        let value = |argument: &Operand| {
            let value = match argument {
                Operand::Constant(value) => Some(value),
                Operand::Register(register) => self.registers[base + register].value(),
                // Collections are always in registers.
                Operand::Path(_) | Operand::Rule(_) => None,
            };
            value.cloned().unwrap_or(Value::Undefined)
        };
        let given = arguments.iter().map(value).collect();
        self.shared.trace.add(point, given);
        Ok(())
    }
}
