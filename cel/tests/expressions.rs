//! Expressions through the public surface.

#[cfg(test)]
mod expressions {
    mod compile;
    mod corpus;
    mod data;
    mod hostile;
    mod kubernetes;
    mod libraries;
    mod validation;

    use wheelhouse_cel::{Bindings, Budget, Declarations, Environment, EvaluateError, Value};

    /// Evaluates an expression without variables in kro's environment.
    fn kro(source: &str) -> Result<Value<'static>, String> {
        run(&Environment::kro_with_omit(), source)
    }

    /// Compiles and evaluates an expression without variables.
    fn run(environment: &Environment, source: &str) -> Result<Value<'static>, String> {
        let program = environment
            .compile(source, &Declarations::new())
            .map_err(|error| error.message)?;
        let result: Result<_, EvaluateError> =
            program.evaluate(&Bindings::new(), Budget::default());
        result.map_err(|error| error.message)
    }

    /// Asserts that every expression is true.
    fn all_true(environment: &Environment, sources: &[&str]) {
        for source in sources {
            match run(environment, source) {
                Ok(value) => assert_eq!(value.as_bool(), Some(true), "{source}: {value:?}"),
                Err(error) => panic!("{source}: {error}"),
            }
        }
    }

    /// Asserts that every expression fails with a text.
    fn all_fail(environment: &Environment, cases: &[(&str, &str)]) {
        for (source, want) in cases {
            match run(environment, source) {
                Ok(value) => panic!("{source}: {value:?}, want an error"),
                Err(error) => assert!(error.contains(want), "{source}: {error}, want {want}"),
            }
        }
    }
}
