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
    /// Whether `runtime` is a variable and `cel.bind` a macro.
    pub(crate) kro: bool,
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
            let rules = Rules {
                strict_literals: true,
                kro: false,
            };
            Arc::new(Environment::new(library::VALIDATION, rules))
        });
        Arc::clone(&SHARED)
    }

    /// The environment of admission: that of validation, and questions to an authorizer.
    pub fn admission() -> Arc<Self> {
        static SHARED: LazyLock<Arc<Environment>> = LazyLock::new(|| {
            let rules = Rules {
                strict_literals: true,
                kro: false,
            };
            let libraries = [library::VALIDATION, library::ADMISSION].concat();
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
        }
    }
}
