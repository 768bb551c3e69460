//! The environments: which functions exist, and how strict the checker is.
//!
//! An environment is made once per process and shared. It holds no variables; these are declared
//! per expression. Its methods that compile are in [`crate::compile`].
//!
//! Source: `kro/pkg/cel/environment.go`, `k8s.io/apiserver/pkg/cel/environment/base.go`.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use crate::library::{self, Implementation, Libraries, Overload, Style};

/// The functions and rules that expressions are compiled with.
#[derive(Debug)]
pub struct Environment {
    functions: BTreeMap<&'static str, Vec<Function>>,
    rules: Rules,
}

/// What differs between the environments beside the functions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rules {
    /// Whether literals of lists and maps must be of one type, and literal durations, timestamps
    /// and patterns well formed.
    pub(crate) strict_literals: bool,
    /// Whether `runtime` is a variable and `cel.bind` a macro, and numbers of two types are compared only after a macro.
    pub(crate) kro: bool,
    /// Whether `Object{…}`, `Object.<field>{…}` and `JSONPatch{…}` make objects.
    pub(crate) patch_types: bool,
}

/// One implementation of a function, with the signatures that it answers to.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) style: Style,
    pub(crate) overloads: Vec<Overload>,
    pub(crate) call: Implementation,
}

// === impl Environment ===

impl Environment {
    /// The environment of kro's expressions, with `omit()` off as its feature gate is.
    pub fn kro() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Environment>> =
            LazyLock::new(|| Arc::new(Environment::new(library::KRO, Rules::kro())));
        Arc::clone(&SHARED)
    }

    /// The environment of kro's expressions where the feature gate `CELOmitFunction` is open.
    pub fn kro_with_omit() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Environment>> = LazyLock::new(|| {
            let libraries = [library::KRO, library::KRO_OMIT].concat();
            Arc::new(Environment::new(&libraries, Rules::kro()))
        });
        Arc::clone(&SHARED)
    }

    /// The environment of `x-kubernetes-validations`.
    pub fn validation() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Environment>> = LazyLock::new(|| {
            let rules = Rules::kubernetes();
            Arc::new(Environment::new(library::VALIDATION, rules))
        });
        Arc::clone(&SHARED)
    }

    /// The environment of admission: that of validation, and questions to an authorizer.
    pub fn admission() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Environment>> = LazyLock::new(|| {
            let rules = Rules::kubernetes();
            let libraries = [library::VALIDATION, library::ADMISSION].concat();
            Arc::new(Environment::new(&libraries, rules))
        });
        Arc::clone(&SHARED)
    }

    /// The environment of mutations: that of admission, and the types of patches.
    ///
    /// `Object` is the object of the request, `Object.spec` what its field `spec` holds, and so on, whether it is an object,
    /// or a list or map of objects; any field may be set. `JSONPatch` is an operation of a JSON patch.
    ///
    /// Source: `k8s.io/apiserver/pkg/cel/mutation`.
    pub fn mutation() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Environment>> = LazyLock::new(|| {
            let rules = Rules {
                patch_types: true,
                ..Rules::kubernetes()
            };
            let libraries = [library::VALIDATION, library::ADMISSION, library::MUTATION].concat();
            Arc::new(Environment::new(&libraries, rules))
        });
        Arc::clone(&SHARED)
    }

    /// Whether a function of that name exists, in either call style.
    pub fn has_function(&self, name: &str) -> bool {
        self.functions.contains_key(name)
    }

    pub(crate) fn functions(&self, name: &str) -> &[Function] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    /// Every function, by name.
    #[cfg(test)]
    pub(crate) fn named_functions(&self) -> impl Iterator<Item = (&'static str, &[Function])> {
        let functions = self.functions.iter();
        functions.map(|(name, functions)| (*name, functions.as_slice()))
    }

    pub(crate) fn rules(&self) -> Rules {
        self.rules
    }

    fn new(libraries: &[Libraries], rules: Rules) -> Self {
        let mut functions: BTreeMap<&'static str, Vec<Function>> = BTreeMap::new();
        for entry in libraries.iter().copied().flatten().copied().flatten() {
            let overloads = entry
                .signatures
                .iter()
                .filter_map(|signature| library::parse_signatures(signature))
                .flatten()
                .collect();
            functions.entry(entry.name).or_default().push(Function {
                style: entry.style,
                overloads,
                call: entry.call,
            });
        }
        Self { functions, rules }
    }
}

// === impl Rules ===

impl Rules {
    fn kro() -> Self {
        Self {
            strict_literals: false,
            kro: true,
            patch_types: false,
        }
    }

    fn kubernetes() -> Self {
        Self {
            strict_literals: true,
            kro: false,
            patch_types: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Bindings, Budget, DeclType, Declarations};

    fn made(source: &str) -> Result<serde_json::Value, String> {
        let declarations = Declarations::new().with("object", DeclType::Dyn);
        let program = Environment::mutation().compile(source, &declarations);
        let program = program.map_err(|error| error.to_string())?;
        let object = json!({"spec": {"n": 2, "l": [1, 2]}});
        let mut bindings = Bindings::new();
        bindings.json("object", &object);
        let value = program.evaluate(&bindings, Budget::default());
        let value = value.and_then(|value| value.to_checked_json());
        value.map_err(|error| error.to_string())
    }

    #[test]
    fn objects_of_patches_are_made_by_their_names() {
        let whole = "Object{spec: Object.spec{n: object.spec.n + 1, l: [Object.spec.l{a: 'x'}], ?none: optional.none(),
            ?some: optional.of({'k/v': Object.spec.some{}})}}";
        assert_eq!(
            made(whole),
            Ok(json!({"spec": {"n": 3, "l": [{"a": "x"}], "some": {"k/v": {}}}}))
        );
        assert_eq!(made("Object{}"), Ok(json!({})));
        assert_eq!(made("Object{a: Object.a{b: 1}}.a.b == 1"), Ok(json!(true)));
        assert_eq!(made("Object{a: 1} == Object{a: 1}"), Ok(json!(true)));
        assert_eq!(made("dyn(Object{a: 1}) == dyn({'a': 1})"), Ok(json!(false)));
        assert_eq!(
            made("has(Object{a: 1}.a) && !has(Object{a: 1}.b)"),
            Ok(json!(true))
        );
        assert_eq!(
            made(
                "true ? [JSONPatch{op: 'add', path: '/a/' + jsonpatch.escapeKey('k8s.io/a~b'), value: {'a': [1]}}] : []"
            ),
            Ok(json!([{"op": "add", "path": "/a/k8s.io~1a~0b", "value": {"a": [1]}}]))
        );
    }

    #[test]
    fn objects_of_other_types_are_refused() {
        for (source, wanted) in [
            ("Objects{}", "undeclared reference to 'Objects'"),
            ("spec.Object{}", "undeclared reference to 'spec.Object'"),
            (
                "JSONPatch{op: 1}",
                "expected type of field 'op' is 'string' but provided type is 'int'",
            ),
            ("JSONPatch{ops: ''}", "undefined field 'ops'"),
            (
                "Object{?a: 1}",
                "expected type 'optional_type(int)' but found 'int'",
            ),
            (
                "Object{spec: Object.spec{a: [Object.spec.b{}]}}",
                "unexpected type name \"Object.spec.b\", expected \"Object.spec.a\"",
            ),
            ("Object{a: b''}", "bytes"),
        ] {
            let refused = made(source);
            assert!(
                refused.as_ref().is_err_and(|error| error.contains(wanted)),
                "{source}: {refused:?}"
            );
        }
        for other in [
            Environment::admission(),
            Environment::validation(),
            Environment::kro(),
        ] {
            let compiled = other.compile("Object{}", &Declarations::new());
            assert!(compiled.is_err_and(|error| error.to_string().contains("undeclared")));
        }
    }
}
