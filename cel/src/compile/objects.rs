//! `Object{…}`, `Object.spec{…}` and `JSONPatch{…}`, which mutations make.

use std::sync::Arc;

use cel::common::ast::{EntryExpr, StructExpr};

use super::lower::{Lowered, Lowering, placeholder};
use crate::node::{Construct, Field, Node};
use crate::types::DeclType;

// === impl Lowering ===

impl Lowering<'_> {
    /// Builds the construction of an object of a named type.
    pub(super) fn construct(&mut self, id: u64, made: &StructExpr) -> Lowered {
        let name = made.type_name.trim_start_matches('.');
        let ty = self
            .environment
            .rules()
            .patch_types
            .then(|| DeclType::of_patch(name));
        let Some(DeclType::Object(ty)) = ty.flatten() else {
            self.undeclared_identifier(id, name);
            return placeholder();
        };
        let mut fields = Vec::with_capacity(made.entries.len());
        for entry in &made.entries {
            let EntryExpr::StructField(field) = &entry.expr else {
                self.misused(entry.id, "unsupported field of an object");
                continue;
            };
            let (value, mut found) = self.lower(&field.value);
            if field.optional {
                found = self.unwrap_optional(field.value.id, &found);
            }
            match ty.fields.get(&field.field) {
                Some(wanted) if !self.mapping.assign(wanted, &found) => {
                    let found = self.mapping.resolve(&found);
                    let text = format!(
                        "expected type of field '{}' is '{wanted}' but provided type is '{found}'",
                        field.field
                    );
                    self.mistyped(entry.id, text);
                }
                None if !ty.open => {
                    self.mistyped(entry.id, format!("undefined field '{}'", field.field));
                }
                Some(_) | None => {}
            }
            fields.push(Field {
                name: Arc::from(field.field.as_str()),
                value,
                optional: field.optional,
            });
        }
        let made = Construct {
            name: Arc::from(name),
            fields: fields.into(),
        };
        (Node::Object(Box::new(made)), DeclType::Object(ty))
    }
}
