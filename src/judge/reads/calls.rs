//! Calls: functions of the policies by what they do with their arguments, builtins by what is known of them.

use std::{collections::BTreeMap, sync::Arc};

use regorus::unstable::{Expr, Ref, Rule, RuleHead, Span};

use super::regorus_nodes::constant_path;
use super::{
    exclusive::text,
    frame::Name,
    possible::{Possible, Scalar},
    walk::{SIZE, Walker},
};
use crate::rego::builtins::{self, Arity, results};

impl<'a> Walker<'a> {
    pub(super) fn function(&mut self, function: &'a Expr, arguments: &'a [Ref<Expr>]) -> Possible {
        let (name, whole) = constant_path(function);
        if let (Some((first, rest)), true) = (name.split_first(), whole)
            && let Name::Document(mut path) = self.name(first)
        {
            path.extend_from_slice(rest);
            if path[0] == "data" {
                return self.user_function(&path[1..], arguments, function.span());
            }
        }
        self.builtin(&name.join("."), arguments)
    }

    fn user_function(&mut self, path: &[String], arguments: &'a [Ref<Expr>], site: &Span) -> Possible {
        let Some(arity) = self.rules.graph.at(path).find_map(|node| node.parameters) else {
            for argument in arguments {
                self.read_whole(argument);
            }
            return self.unsure();
        };
        let (inputs, output) = arguments.split_at(arity.min(arguments.len()));
        let mut values = Vec::with_capacity(arity);
        for argument in inputs {
            let mut value = self.expr(argument);
            if value.is_nothing() {
                return value;
            }
            if value.size(SIZE) > SIZE {
                self.whole(value);
                value = Possible::other();
            }
            values.push(value);
        }
        let sure = values.iter().all(|value| value.sure);
        let mut value = self.call(path, Some(values), Some(site));
        value.sure &= sure;
        let [output] = output else { return value };
        // `f(x, y)` where f takes one argument: `y = f(x)`.
        let value = self.whole(value);
        self.bind_unknown(output);
        self.read_whole(output);
        if value.is_nothing() { value } else { Possible::other() }
    }

    fn read_whole(&mut self, expr: &'a Expr) -> bool {
        let value = self.expr(expr);
        let nothing = value.is_nothing();
        self.whole(value);
        nothing
    }

    fn builtin(&mut self, name: &str, arguments: &'a [Ref<Expr>]) -> Possible {
        match (name, arguments) {
            ("object.get", [object, key, default]) => self.object_get(object, key, default),
            ("count", [collection]) => {
                let value = self.expr(collection);
                self.frame.risk |= !value.is_nothing();
                // The length of a text.
                value.places.iter().for_each(|place| self.frame.reads.insert(place, false));
                self.elements(&value);
                defined(&[&value])
            }
            ("object.keys", [object]) => {
                let value = self.expr(object);
                self.frame.risk |= !value.is_nothing();
                let (keys, _) = self.elements(&value);
                if value.is_nothing() { value } else { Possible::set(self.whole(keys), false) }
            }
            ("array.concat", [left, right]) => {
                let (left, right) = (self.expr(left), self.expr(right));
                let mut all = self.elements(&left).1;
                all.join(self.elements(&right).1);
                self.listed(&[&left, &right], all)
            }
            ("array.slice", [array, from, to]) => {
                let array = self.expr(array);
                let nothing = self.read_whole(from) | self.read_whole(to);
                let (_, all) = self.elements(&array);
                if nothing { Possible::default() } else { self.listed(&[&array], all) }
            }
            ("array.reverse", [array]) => {
                let array = self.expr(array);
                let (_, all) = self.elements(&array);
                self.listed(&[&array], all)
            }
            (
                "is_array" | "is_boolean" | "is_null" | "is_number" | "is_object" | "is_set" | "is_string"
                | "type_name",
                [value],
            ) => {
                let value = self.expr(value);
                self.present(&value);
                defined(&[&value])
            }
            ("json.patch", [object, patches]) => match added_fields(patches) {
                Some(added) => self.with_fields(object, &added),
                None => self.any_builtin(name, arguments),
            },
            ("result.new", [message, cause]) => self.new_result(message, cause),
            ("sprintf", _) => self.sprintf(arguments),
            ("concat", _) => self.concat(arguments),
            ("internal.template_string", _) => self.template_string(arguments),
            // Printing does not change a verdict.
            ("print", _) => {
                for argument in arguments {
                    let value = self.expr(argument);
                    self.present(&value);
                }
                Possible::other()
            }
            _ => self.any_builtin(name, arguments),
        }
    }

    /// What `result.new` makes: the message and the name of the cause are only handed around.
    fn new_result(&mut self, message: &'a Expr, cause: &'a Expr) -> Possible {
        let (message, cause) = (self.expr(message), self.expr(cause));
        if message.is_nothing() || cause.is_nothing() {
            return Possible::default();
        }
        self.present(&cause);
        let sure = message.sure && cause.sure;
        let mut fields = BTreeMap::from([(Arc::from("msg"), message)]);
        let mut field = |name: &str| self.step(&cause, Possible::scalar(name.into()));
        let name = BTreeMap::from([(Arc::from(results::NAME), field(results::NAME))]);
        fields.insert(Arc::from("cause"), Possible { fields: Some(name), ..Possible::default() });
        let taken = results::TAKEN.map(|(given, name)| (name, field(given)));
        let apart = field(results::METADATA);
        self.whole(apart);
        for (name, value) in taken {
            self.whole(value);
            fields.insert(Arc::from(name), Possible::other());
        }
        Possible { fields: Some(fields), sure, ..Possible::default() }
    }

    /// An array of elements of other arrays.
    fn listed(&mut self, from: &[&Possible], elements: Possible) -> Possible {
        if from.iter().any(|array| array.is_nothing()) {
            return Possible::default();
        }
        // An error in strict evaluation unless all are arrays.
        let array = |value: &&Possible| {
            value.items.is_some() && value.fields.is_none() && value.places.is_empty() && value.names.is_empty()
        };
        self.frame.risk |= !from.iter().all(|value| array(value) && !value.other && value.members.is_none());
        Possible::array(elements, false)
    }

    pub(super) fn any_builtin(&mut self, name: &str, arguments: &'a [Ref<Expr>]) -> Possible {
        self.frame.reads.clock |= matches!(name, "time.now_ns" | "uuid.rfc4122");
        // An additional argument is bound to the result.
        if builtins::find(name) == u8::try_from(arguments.len()).ok().and_then(|n| n.checked_sub(1)).map(Arity::Exactly)
        {
            arguments.last().into_iter().for_each(|output| self.bind_unknown(output));
        }
        let mut nothing = false;
        for argument in arguments {
            nothing |= self.read_whole(argument);
        }
        if nothing {
            return Possible::default();
        }
        // An error in strict evaluation.
        self.frame.risk = true;
        Possible::other()
    }

    /// `json.patch` that adds fields: the object is only handed around, and may have others in place of its own.
    fn with_fields(&mut self, object: &'a Expr, added: &[(&'a str, &'a Expr)]) -> Possible {
        let mut patched = self.expr(object);
        // Of what is no object, nothing comes.
        self.present(&patched);
        let mut nothing = patched.is_nothing();
        for (name, value) in added {
            let value = self.expr(value);
            self.present(&value);
            nothing |= value.is_nothing();
            let fields = Some(BTreeMap::from([(Arc::from(*name), value)]));
            patched.join(Possible { fields, ..Possible::default() });
        }
        // An error in strict evaluation.
        self.frame.risk = true;
        if nothing { Possible::default() } else { patched }
    }

    /// Returns the array of texts that a rule of this name is, without conditions.
    fn constant_array(&self, expr: &Expr) -> Option<&'a Expr> {
        let Expr::Var { span, .. } = expr else { return None };
        let Name::Document(path) = self.name(span.text()) else { return None };
        let (root, path) = path.split_first()?;
        let rules = self.rules;
        let covered = rules.graph.covered(path);
        let mut nodes = rules.graph.at(path);
        let (Some(node), None, true) = (nodes.next(), nodes.next(), root == "data" && covered == [path]) else {
            return None;
        };
        let Rule::Spec { head: RuleHead::Compr { refr, assign: Some(assign), .. }, bodies, .. } = rules.rule(node)
        else {
            return None;
        };
        let is_plain = bodies.is_empty() && matches!(refr.as_ref(), Expr::Var { .. });
        (is_plain && is_of_texts(&assign.value)).then_some(&assign.value)
    }

    /// `object.get` with a key or an array of keys reads no more than what it finds.
    fn object_get(&mut self, object: &'a Expr, key: &'a Expr, default: &'a Expr) -> Possible {
        let (object, default) = (self.expr(object), self.expr(default));
        if object.is_nothing() || default.is_nothing() {
            return Possible::default();
        }
        self.present(&object);
        let keys: Vec<Possible> = match self.constant_array(key).unwrap_or(key) {
            Expr::Array { items, .. } => items.iter().map(|item| self.expr(item)).collect(),
            key => vec![self.expr(key)],
        };
        // An error in strict evaluation unless it is an object.
        self.frame.risk = true;
        let one = |key: &Possible| {
            key.is_scalar() && key.scalars.iter().all(|key| matches!(key, Scalar::Value(_) | Scalar::OtherKind))
        };
        if !keys.iter().all(one) {
            // It may be a path of any length.
            for key in keys {
                self.whole(key);
            }
            self.whole(object);
            self.whole(default);
            return Possible::other();
        }
        let mut found = object;
        for key in keys {
            found = self.step(&found, key);
            self.present(&found);
        }
        found.join(default);
        found
    }
}

/// Returns what patches add to an object, if they are written there, and do nothing else than to add fields.
fn added_fields(patches: &Expr) -> Option<Vec<(&str, &Expr)>> {
    let Expr::Array { items, .. } = patches else { return None };
    items.iter().map(|patch| added_field(patch)).collect()
}

/// Returns the name and the value of the field that a patch adds.
fn added_field(patch: &Expr) -> Option<(&str, &Expr)> {
    let Expr::Object { fields, .. } = patch else { return None };
    let (mut name, mut value, mut adds) = (None, None, false);
    for (_, key, part) in fields {
        match (text(key)?, part.as_ref()) {
            ("op", part) => adds = text(part)? == "add",
            ("path", part) => name = text(part).map(|path| path.strip_prefix('/').unwrap_or(path)),
            ("value", part) => value = Some(part),
            _ => return None,
        }
    }
    let name = name.filter(|name| adds && !name.is_empty() && !name.contains(['/', '~']))?;
    Some((name, value?))
}

/// An array of texts that are written there.
fn is_of_texts(expr: &Expr) -> bool {
    matches!(expr, Expr::Array { items, .. }
        if items.iter().all(|item| text(item).is_some()))
}

fn defined(arguments: &[&Possible]) -> Possible {
    if arguments.iter().any(|argument| argument.is_nothing()) { Possible::default() } else { Possible::other() }
}
