//! Questions to an authorizer: `authorizer.group('apps').resource('deployments').check('create').allowed()`.
//!
//! Whoever binds an authorizer answers the questions ([`Authorize`]); nothing here reads the world.
//!
//! Source: `k8s.io/apiserver/pkg/cel/library/authz.go`; the cost is that of `library/cost.go`.

use std::fmt;
use std::sync::Arc;

use super::opaque::Opaque;
use super::{Entry, Returned, member};
use crate::budget::Meter;
use crate::error::Failure;
use crate::value::{Kind, Text, Value};

/// The type of a bound authorizer.
pub const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";
/// The type of a bound question about a resource.
pub const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";

/// Answers what somebody may do.
pub trait Authorize: Send + Sync {
    /// Answers one question.
    fn ask(&self, question: &Question<'_>) -> Answer;
}

/// A question to an authorizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'q> {
    /// The ServiceAccount that is asked about, as namespace and name; the user of the request without one.
    pub service_account: Option<(&'q str, &'q str)>,
    /// What it is about.
    pub subject: &'q Subject,
    /// What is to be done.
    pub verb: &'q str,
}

/// What a question is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A path that names no resource.
    Path(String),
    /// A resource.
    Resource(ResourceSubject),
}

/// A resource that a question is about; absent parts are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceSubject {
    /// The API group.
    pub group: String,
    /// The resource.
    pub resource: String,
    /// The subresource.
    pub subresource: String,
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

/// The answer to a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Whether it may be done.
    pub allowed: bool,
    /// Why.
    pub reason: String,
    /// What went wrong; empty where nothing did.
    pub error: String,
}

/// A value of this library.
#[derive(Clone)]
pub(crate) struct Authorization {
    asked: Arc<dyn Authorize>,
    account: Option<Arc<(String, String)>>,
    stage: Stage,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Authorizer,
    Group(Arc<str>),
    Subject(Arc<Subject>),
    Decision(Arc<Answer>),
}

const AUTHORIZER_TO_ACCOUNT: &[&str] = &["(authorizer, string, string) -> authorizer"];
const REFINE: &[&str] = &["(resourcecheck, string) -> resourcecheck"];
const FLAG: &[&str] = &["(decision) -> bool"];
const TEXT: &[&str] = &["(decision) -> string"];

pub(super) const FUNCTIONS: &[Entry] = &[
    member("path", &["(authorizer, string) -> pathcheck"], path),
    member("group", &["(authorizer, string) -> groupcheck"], group),
    member("serviceAccount", AUTHORIZER_TO_ACCOUNT, service_account),
    member(
        "resource",
        &["(groupcheck, string) -> resourcecheck"],
        resource,
    ),
    member("subresource", REFINE, |args, _| {
        refine(args, |subject, text| subject.subresource = text)
    }),
    member("namespace", REFINE, |args, _| {
        refine(args, |subject, text| subject.namespace = text)
    }),
    member("name", REFINE, |args, _| {
        refine(args, |subject, text| subject.name = text)
    }),
    // RBAC does not look at selectors, so a question with one is the same question.
    member("fieldSelector", REFINE, |args, _| refine(args, |_, _| {})),
    member("labelSelector", REFINE, |args, _| refine(args, |_, _| {})),
    member(
        "check",
        &[
            "(pathcheck, string) -> decision",
            "(resourcecheck, string) -> decision",
        ],
        check,
    ),
    member("allowed", FLAG, |args, _| {
        Ok(Value::bool(decision(args)?.allowed))
    }),
    member("errored", FLAG, |args, _| {
        Ok(Value::bool(!decision(args)?.error.is_empty()))
    }),
    member("reason", TEXT, |args, _| Ok(text(&decision(args)?.reason))),
    member("error", TEXT, |args, _| Ok(text(&decision(args)?.error))),
];

// === impl Authorization ===

impl Authorization {
    /// Makes an authorizer, or a question about a resource.
    pub(crate) fn new(asked: &Arc<dyn Authorize>, subject: Option<ResourceSubject>) -> Self {
        let stage = subject.map_or(Stage::Authorizer, |subject| {
            Stage::Subject(Arc::new(Subject::Resource(subject)))
        });
        Self {
            asked: Arc::clone(asked),
            account: None,
            stage,
        }
    }

    pub(super) fn type_name(&self) -> &'static str {
        match &self.stage {
            Stage::Authorizer => AUTHORIZER,
            Stage::Group(_) => "kubernetes.authorization.GroupCheck",
            Stage::Subject(subject) => match **subject {
                Subject::Path(_) => "kubernetes.authorization.PathCheck",
                Subject::Resource(_) => RESOURCE_CHECK,
            },
            Stage::Decision(_) => "kubernetes.authorization.Decision",
        }
    }

    fn at<'v>(&self, stage: Stage) -> Value<'v> {
        let next = Self {
            stage,
            ..self.clone()
        };
        Value::opaque(Opaque::Authorization(Arc::new(next)))
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization")
            .field("account", &self.account)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

impl PartialEq for Authorization {
    fn eq(&self, other: &Self) -> bool {
        self.account == other.account && self.stage == other.stage
    }
}

fn path<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (own, text) = own_and_text(args)?;
    if own.stage != Stage::Authorizer {
        return Err(Failure::NoOverload);
    }
    if text.trim().is_empty() {
        return Err(Failure::new("path must not be empty"));
    }
    let subject = Subject::Path(text.to_owned());
    Ok(own.at(Stage::Subject(Arc::new(subject))))
}

fn group<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (own, text) = own_and_text(args)?;
    if own.stage != Stage::Authorizer {
        return Err(Failure::NoOverload);
    }
    Ok(own.at(Stage::Group(text.into())))
}

fn service_account<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let [
        Value(Kind::Opaque(Opaque::Authorization(own))),
        namespace,
        name,
    ] = args
    else {
        return Err(Failure::NoOverload);
    };
    let (Some(namespace), Some(name)) = (namespace.as_str(), name.as_str()) else {
        return Err(Failure::NoOverload);
    };
    if own.stage != Stage::Authorizer {
        return Err(Failure::NoOverload);
    }
    if !dialect::names::is_dns_subdomain(name).is_empty() {
        return Err(Failure::new("Invalid service account name"));
    }
    if !dialect::names::is_dns_label(namespace).is_empty() {
        return Err(Failure::new("Invalid service account namespace"));
    }
    let account = (namespace.to_owned(), name.to_owned());
    let next = Authorization {
        account: Some(Arc::new(account)),
        ..Authorization::clone(own)
    };
    Ok(Value::opaque(Opaque::Authorization(Arc::new(next))))
}

fn resource<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (own, text) = own_and_text(args)?;
    let Stage::Group(group) = &own.stage else {
        return Err(Failure::NoOverload);
    };
    if text.trim().is_empty() {
        return Err(Failure::new("resource must not be empty"));
    }
    let subject = ResourceSubject {
        group: group.to_string(),
        resource: text.to_owned(),
        ..ResourceSubject::default()
    };
    Ok(own.at(Stage::Subject(Arc::new(Subject::Resource(subject)))))
}

fn refine<'v>(args: &[Value<'v>], set: fn(&mut ResourceSubject, String)) -> Returned<'v> {
    let (own, text) = own_and_text(args)?;
    let Stage::Subject(subject) = &own.stage else {
        return Err(Failure::NoOverload);
    };
    let Subject::Resource(subject) = &**subject else {
        return Err(Failure::NoOverload);
    };
    let mut subject = subject.clone();
    set(&mut subject, text.to_owned());
    Ok(own.at(Stage::Subject(Arc::new(Subject::Resource(subject)))))
}

fn check<'v>(args: &[Value<'v>], _: &mut Meter) -> Returned<'v> {
    let (own, verb) = own_and_text(args)?;
    let Stage::Subject(subject) = &own.stage else {
        return Err(Failure::NoOverload);
    };
    let account = own.account.as_deref();
    let answer = own.asked.ask(&Question {
        service_account: account.map(|(namespace, name)| (namespace.as_str(), name.as_str())),
        subject,
        verb,
    });
    Ok(own.at(Stage::Decision(Arc::new(answer))))
}

fn own_and_text<'a>(args: &'a [Value<'_>]) -> Result<(&'a Authorization, &'a str), Failure> {
    match args {
        [Value(Kind::Opaque(Opaque::Authorization(own))), text] => {
            Ok((own, text.as_str().ok_or(Failure::NoOverload)?))
        }
        _ => Err(Failure::NoOverload),
    }
}

fn decision<'a>(args: &'a [Value<'_>]) -> Result<&'a Answer, Failure> {
    match args {
        [Value(Kind::Opaque(Opaque::Authorization(own)))] => match &own.stage {
            Stage::Decision(answer) => Ok(answer),
            _ => Err(Failure::NoOverload),
        },
        _ => Err(Failure::NoOverload),
    }
}

fn text<'v>(text: &str) -> Value<'v> {
    Value(Kind::String(Text::Shared(text.into())))
}
