//! Binding several objects under one name, as a list, without copying them.

use serde_json::Value as Json;

use crate::bindings::Bindings;
use crate::types::DeclType;
use crate::value::Value;

impl<'v> Bindings<'v> {
    /// Binds objects as a list; each is read as `ty`.
    pub fn objects(
        &mut self,
        name: &'v str,
        objects: impl IntoIterator<Item = &'v Json>,
        ty: &'v DeclType,
    ) -> &mut Self {
        let read = |json| {
            Value::from_typed_json(json, ty).unwrap_or_else(|_not_so| Value::from_json(json))
        };
        let values = objects.into_iter().map(read).collect();
        self.value(name, Value::list(values))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Budget, Declarations, Environment};

    #[test]
    fn objects_are_seen_as_a_list_of_their_type() {
        let ty = DeclType::object("t", [("at".to_owned(), DeclType::Timestamp)]);
        let declarations = Declarations::new().with("items", DeclType::list(ty.clone()));
        let program = Environment::kro()
            .compile("items.map(i, i.at.getFullYear())", &declarations)
            .expect("compiles");
        let objects = [
            json!({"at": "2024-01-01T00:00:00Z"}),
            json!({"at": "2025-01-01T00:00:00Z"}),
        ];
        let mut bindings = Bindings::new();
        bindings.objects("items", &objects, &ty);
        let value = program
            .evaluate(&bindings, Budget::default())
            .expect("evaluates");
        assert_eq!(value.to_json(), Ok(json!([2024, 2025])));
    }
}
