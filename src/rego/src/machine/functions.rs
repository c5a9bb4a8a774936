//! Calls of functions.

use regorus::Value;

use super::{Machine, limit::Halt, loops::is_collection, slot::Slot};
use crate::program::{Operand, RuleForm, RuleId};

impl<'v> Machine<'v, '_> {
    /// Returns the value of a function, `Undefined` if it has none.
    pub(super) fn invoke(
        &mut self,
        RuleId(id): RuleId,
        arguments: &'v [Operand],
        caller: usize,
    ) -> Result<Value, Halt> {
        self.shared.gauge.enter()?;
        let rule = &self.program.rules[id];
        let base = self.registers.len();
        for argument in arguments {
            let slot = self.slot(argument, caller)?;
            if matches!(slot, Slot::Empty) {
                self.registers.truncate(base);
                return Ok(Value::Undefined);
            }
            self.registers.push(slot);
        }
        let given = &self.registers[base..];
        if let Some(value) = self.calls.find(id, given) {
            let value = value.clone();
            self.registers.truncate(base);
            return Ok(value);
        }
        let made = given.iter().any(|slot| matches!(slot, Slot::Own(value) if is_collection(value)));
        let key: Vec<Value> = given.iter().filter_map(Slot::value).cloned().collect();
        self.registers.resize_with(base + rule.registers, || Slot::Empty);
        debug_assert_eq!(rule.form, RuleForm::Complete, "functions have one value");
        let left = self.shared.gauge.left();
        let value = self.definitions(rule, &rule.definitions, base);
        self.registers.truncate(base);
        let value = self.or_default(rule, value?)?;
        // The memory for the arguments is not known exactly, but is at most what was used since the current element of
        // the outermost loop.
        let began = self.outermost.filter(|_| made).unwrap_or(left);
        self.calls.insert(id, key, value.clone(), began.saturating_sub(self.shared.gauge.left()));
        self.shared.gauge.hold(self.calls.bytes);
        Ok(value)
    }
}
