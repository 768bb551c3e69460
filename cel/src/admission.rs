//! What the expressions of admission are bound to beside JSON: authorizers, and variables that are expressions.
//!
//! Source: `k8s.io/apiserver/pkg/admission/plugin/cel/{activation,composition}.go`.

use std::sync::Arc;

use crate::bindings::Bindings;
use crate::library::authorization::{Authorization, Authorize, ResourceSubject};
use crate::library::opaque::Opaque;
use crate::program::Program;
use crate::value::Value;

// === impl Bindings ===

impl<'v> Bindings<'v> {
    /// Binds an authorizer, of the type [`AUTHORIZER`](crate::AUTHORIZER).
    pub fn authorizer(&mut self, name: &'v str, asked: &Arc<dyn Authorize>) -> &mut Self {
        self.value(name, authorization(Authorization::new(asked, None)))
    }

    /// Binds a question about a resource, of the type [`RESOURCE_CHECK`](crate::RESOURCE_CHECK).
    pub fn resource_check(
        &mut self,
        name: &'v str,
        asked: &Arc<dyn Authorize>,
        subject: ResourceSubject,
    ) -> &mut Self {
        self.value(
            name,
            authorization(Authorization::new(asked, Some(subject))),
        )
    }

    /// Binds an expression over the same bindings. It is evaluated where it is first read, within the steps of whoever
    /// reads it, and once. It may cost as much as the reader for itself.
    pub fn composed_of(&mut self, name: &'v str, program: &'v Program) -> &mut Self {
        self.expression(name, program.node())
    }
}

fn authorization<'v>(authorization: Authorization) -> Value<'v> {
    Value::opaque(Opaque::Authorization(Arc::new(authorization)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AUTHORIZER, Answer, Budget, DeclType, Declarations, Environment, Question, RESOURCE_CHECK,
        Subject,
    };

    /// Lets one account read one resource.
    struct Reader;

    impl Authorize for Reader {
        fn ask(&self, question: &Question<'_>) -> Answer {
            let allowed = match question.subject {
                Subject::Path(path) => path == "/metrics",
                Subject::Resource(it) => {
                    (it.group.as_str(), it.resource.as_str(), it.name.as_str())
                        == ("apps", "deployments", "web")
                        && question.verb == "get"
                }
            };
            Answer {
                allowed: allowed && question.service_account != Some(("default", "other")),
                reason: "because".to_owned(),
                error: String::new(),
            }
        }
    }

    #[test]
    fn questions_are_put_together_and_asked() {
        let declarations = Declarations::new()
            .with("authorizer", DeclType::Opaque(AUTHORIZER))
            .with(
                "authorizer.requestResource",
                DeclType::Opaque(RESOURCE_CHECK),
            );
        let asked: Arc<dyn Authorize> = Arc::new(Reader);
        let deployment = "authorizer.group('apps').resource('deployments').name('web')";
        for (source, want) in [
            (format!("{deployment}.check('get').allowed()"), true),
            (format!("{deployment}.check('delete').allowed()"), false),
            (format!("{deployment}.namespace('x').check('get').reason() == 'because'"), true),
            (format!("{deployment}.check('get').errored()"), false),
            ("authorizer.path('/metrics').check('get').allowed()".to_owned(), true),
            ("authorizer.requestResource.check('get').allowed()".to_owned(), true),
            (
                "authorizer.serviceAccount('default', 'other').path('/metrics').check('get').allowed()"
                    .to_owned(),
                false,
            ),
        ] {
            let program = Environment::admission()
                .compile(&source, &declarations)
                .expect(&source);
            let mut bindings = Bindings::new();
            bindings.authorizer("authorizer", &asked);
            let subject = ResourceSubject {
                group: "apps".to_owned(),
                resource: "deployments".to_owned(),
                name: "web".to_owned(),
                ..ResourceSubject::default()
            };
            bindings.resource_check("authorizer.requestResource", &asked, subject);
            let value = program.evaluate(&bindings, Budget::default());
            assert_eq!(value.expect(&source).as_bool(), Some(want), "{source}");
        }
        let three = "[1, 2, 3].map(i, authorizer.path('/a').check('get').allowed())";
        let program = Environment::admission().compile(three, &declarations);
        let mut bindings = Bindings::new();
        bindings.authorizer("authorizer", &asked);
        let error = program.expect(three).evaluate(&bindings, Budget::default());
        assert_eq!(
            error.expect_err("three checks cost too much").class,
            crate::ErrorClass::Cost
        );
        assert!(
            Environment::validation()
                .compile(
                    &format!("{deployment}.check('get').allowed()"),
                    &declarations
                )
                .is_err(),
            "rules of schemas ask nobody"
        );
    }

    #[test]
    fn composed_variables_are_evaluated_where_they_are_read_and_once() {
        let mut declarations = Declarations::new().with("object", DeclType::Dyn);
        let environment = Environment::admission();
        let mut programs = Vec::new();
        for (name, source) in [
            ("variables.count", "object.items.size()"),
            ("variables.twice", "[1, 2].map(i, i * variables.count)"),
            ("variables.broken", "object.absent.size()"),
        ] {
            let program = environment.compile(source, &declarations).expect(source);
            declarations.declare(name, program.result_type().clone());
            programs.push((name, program));
        }
        let object = serde_json::json!({"items": ["a", "b", "c"]});
        let mut bindings = Bindings::new();
        bindings.json("object", &object);
        for (name, program) in &programs {
            bindings.composed_of(name, program);
        }
        for (source, want) in [
            ("[1].all(i, variables.twice == [3, 6])", Ok(true)),
            ("variables.count == 3 || variables.broken > 1", Ok(true)),
            (
                "variables.broken > 1",
                Err("composited variable \"broken\" fails to evaluate: no such key: absent"),
            ),
        ] {
            let program = environment.compile(source, &declarations).expect(source);
            let value = program.evaluate(&bindings, Budget::default());
            match want {
                Ok(want) => assert_eq!(value.expect(source).as_bool(), Some(want), "{source}"),
                Err(want) => assert_eq!(value.expect_err(source).message, want, "{source}"),
            }
        }
    }
}
