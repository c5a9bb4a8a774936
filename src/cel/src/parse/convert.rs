//! Converts the parser's tree.

use std::sync::Arc;

use cel::common::ast::{self as foreign, IdedExpr, SourceInfo, operators};

use super::{Parsed, macros, too_deep};
use crate::{
    ast::{CallExpr, CelExpr, CelExprKind, ListElement, MapEntry, Select},
    error::CompileError,
    value::{CelText, CelValue},
};

pub(super) struct Converter<'i> {
    info: &'i SourceInfo,
    /// The number of code points before each byte, if the source is not ASCII.
    code_points: Option<Vec<usize>>,
    count: usize,
    most_depth: usize,
    problems: Vec<CompileError>,
}

/// An expression without a value, where a problem was found.
const NOTHING: CelExprKind = CelExprKind::Literal(CelValue::Null);

impl<'i> Converter<'i> {
    pub(super) fn new(info: &'i SourceInfo, most_depth: usize) -> Self {
        let source = &info.source;
        let code_points = (!source.is_ascii()).then(|| {
            let mut count = 0;
            let before = |byte: &u8| {
                let is_first = byte & 0xc0 != 0x80;
                count += usize::from(is_first);
                count - usize::from(is_first)
            };
            source.as_bytes().iter().map(before).collect()
        });
        Self { info, code_points, count: 0, most_depth, problems: Vec::new() }
    }

    pub(super) fn convert(mut self, tree: IdedExpr) -> Result<Parsed, CompileError> {
        let expr = self.expr(tree, 0)?;
        match CompileError::joined(self.problems) {
            Some(problem) => Err(problem),
            None => Ok(Parsed { expr, count: self.count }),
        }
    }

    /// Returns an expression with a new id.
    pub(super) fn new_expr(&mut self, offset: usize, kind: CelExprKind) -> CelExpr {
        let id = self.count;
        self.count += 1;
        CelExpr { id, offset, kind }
    }

    /// Records a problem at an offset in code points.
    pub(super) fn refuse(&mut self, offset: usize, message: &str) {
        let (line, column) = crate::check::position(&self.info.source, offset);
        self.problems.push(CompileError { line, column, message: message.to_owned(), more: Vec::new() });
    }

    /// Returns the byte at which an expression is.
    fn byte(&self, id: u64) -> usize {
        self.info.offset_for(id).map_or(0, |(start, _)| start as usize)
    }

    /// Returns the number of code points before a byte.
    fn code_points(&self, byte: usize) -> usize {
        match &self.code_points {
            Some(before) => before.get(byte).copied().unwrap_or(before.len()),
            None => byte,
        }
    }

    /// Returns the byte of the sign of a negative number; the parser's position is that of its digits.
    fn sign(&self, byte: usize) -> usize {
        let before = self.info.source.get(..byte).unwrap_or_default().trim_end();
        if before.ends_with('-') { before.len() - 1 } else { byte }
    }

    fn expr(&mut self, tree: IdedExpr, depth: usize) -> Result<CelExpr, CompileError> {
        if depth > self.most_depth {
            return Err(too_deep());
        }
        let mut byte = self.byte(tree.id);
        if is_negative(&tree.expr) {
            byte = self.sign(byte);
        }
        let offset = self.code_points(byte);
        let kind = match tree.expr {
            foreign::Expr::Literal(literal) => CelExprKind::Literal(value(literal)),
            foreign::Expr::Ident(name) => CelExprKind::Ident(name.trim_start_matches('.').into()),
            foreign::Expr::Select(select) => {
                let operand = self.expr(*select.operand, depth + 1)?;
                CelExprKind::Select(Box::new(Select { operand, field: select.field.into(), test: false }))
            }
            foreign::Expr::List(list) => CelExprKind::List(self.elements(list, depth)?),
            foreign::Expr::Map(map) => CelExprKind::Map(self.entries(map.entries, depth)?),
            foreign::Expr::Struct(message) => CelExprKind::Struct(message.type_name.trim_start_matches('.').into()),
            foreign::Expr::Call(call) => return self.call(offset, call, depth),
            foreign::Expr::Comprehension(_) | foreign::Expr::Unspecified => {
                self.refuse(offset, "not an expression");
                NOTHING
            }
        };
        Ok(self.new_expr(offset, kind))
    }

    fn elements(&mut self, list: foreign::ListExpr, depth: usize) -> Result<Vec<ListElement>, CompileError> {
        let optionals = list.optional_indices;
        let elements = list.elements.into_iter().enumerate();
        elements
            .map(|(index, element)| {
                Ok(ListElement { value: self.expr(element, depth)?, optional: optionals.contains(&index) })
            })
            .collect()
    }

    fn entries(&mut self, entries: Vec<foreign::IdedEntryExpr>, depth: usize) -> Result<Vec<MapEntry>, CompileError> {
        let mut all = Vec::with_capacity(entries.len());
        for entry in entries {
            if let foreign::EntryExpr::MapEntry(entry) = entry.expr {
                let key = self.expr(entry.key, depth)?;
                all.push(MapEntry { key, value: self.expr(entry.value, depth)?, optional: entry.optional });
            }
        }
        Ok(all)
    }

    fn call(&mut self, offset: usize, call: foreign::CallExpr, depth: usize) -> Result<CelExpr, CompileError> {
        let deeper = depth + usize::from(is_counted(&call));
        let target = call.target.map(|target| self.expr(*target, deeper)).transpose()?;
        let arguments = call.args.into_iter().map(|argument| self.expr(argument, deeper)).collect::<Result<_, _>>()?;
        let name = call.func_name.trim_start_matches('.');
        let call = CallExpr { function: name.into(), target: target.map(Box::new), arguments };
        Ok(macros::expand(self, offset, call))
    }
}

/// Whether a call counts as a level of nesting: operators with two operands, conditions, indexes and calls of members.
fn is_counted(call: &foreign::CallExpr) -> bool {
    let is_logical = [operators::LOGICAL_AND, operators::LOGICAL_OR, operators::LOGICAL_NOT, operators::NEGATE]
        .contains(&call.func_name.as_str());
    call.target.is_some() || (!is_logical && !call.func_name.starts_with(|c: char| c.is_alphanumeric()))
}

fn is_negative(expr: &foreign::Expr) -> bool {
    match expr {
        foreign::Expr::Literal(foreign::LiteralValue::Int(value)) => *value.inner() < 0,
        foreign::Expr::Literal(foreign::LiteralValue::Double(value)) => value.inner().is_sign_negative(),
        _ => false,
    }
}

fn value(literal: foreign::LiteralValue) -> CelValue<'static> {
    use foreign::LiteralValue;
    match literal {
        LiteralValue::Boolean(value) => CelValue::Bool(*value.inner()),
        LiteralValue::Bytes(value) => CelValue::Bytes(Arc::from(value.inner())),
        LiteralValue::Double(value) => CelValue::Double(*value.inner()),
        LiteralValue::Int(value) => CelValue::Int(*value.inner()),
        LiteralValue::Null => CelValue::Null,
        LiteralValue::String(value) => CelValue::String(CelText::Shared(Arc::from(value.inner()))),
        LiteralValue::UInt(value) => CelValue::Uint(*value.inner()),
    }
}
