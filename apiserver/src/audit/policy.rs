//! The audit policy: which requests are recorded, and how much of each. The file is kube-apiserver's.
//!
//! # Invariants
//! - The first rule that matches decides, as in Kubernetes; a request that none matches is not recorded.
//! - A rule asks about the user who was authenticated, not about the one that it acts as.
//!
//! Source: `apiserver/pkg/audit/policy/{checker,reader}.go`, `apiserver/pkg/apis/audit/validation/validation.go`.

use std::fmt;

use dialect::names::is_dns_subdomain;
use serde_json::{Map, Value};

use crate::request::{Level, ManagedFields, RequestInfo, UserInfo};

const API_VERSION: &str = "audit.k8s.io/v1";
const LEVELS: [Level; 4] = [
    Level::None,
    Level::Metadata,
    Level::Request,
    Level::RequestResponse,
];

/// When in the life of a request an event is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It was read, and its sender is known.
    RequestReceived,
    /// The head of an answer goes out that lasts: of a watch, or a stream. Also how requests end whose sender is not known.
    ResponseStarted,
    /// It was answered.
    ResponseComplete,
    /// It panicked.
    Panic,
}

/// Some stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Stages(u8);

/// A policy file.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    rules: Vec<Rule>,
    /// What is told about fields that nobody knows.
    warnings: Vec<String>,
}

#[derive(Clone, Debug)]
struct Rule {
    treatment: Treatment,
    users: Vec<String>,
    groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<Resources>,
    namespaces: Vec<String>,
    paths: Vec<String>,
}

#[derive(Clone, Debug)]
struct Resources {
    group: String,
    patterns: Vec<String>,
    names: Vec<String>,
}

/// What is recorded of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Treatment {
    pub(super) level: Level,
    pub(super) omitted: Stages,
    pub(super) managed_fields: ManagedFields,
}

/// Why a policy file cannot be used: what is wrong at which fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(Vec<String>);

/// Reads a document, and collects what is wrong with it.
struct Reader {
    errors: Vec<String>,
    warnings: Vec<String>,
}

// === impl Stage ===

impl Stage {
    const ALL: [Self; 4] = [
        Self::RequestReceived,
        Self::ResponseStarted,
        Self::ResponseComplete,
        Self::Panic,
    ];

    /// The word of the policy file and of events.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }
}

// === impl Stages ===

impl Stages {
    pub(super) const fn has(self, stage: Stage) -> bool {
        self.0 & (1 << stage as u8) != 0
    }

    pub(super) const fn with(self, stage: Stage) -> Self {
        Self(self.0 | (1 << stage as u8))
    }

    const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

// === impl Treatment ===

impl Treatment {
    /// What becomes of a request that no rule matches.
    pub(super) const NONE: Self = Self {
        level: Level::None,
        omitted: Stages(0),
        managed_fields: ManagedFields::Kept,
    };
}

// === impl Policy ===

impl Policy {
    /// Reads a policy file.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, PolicyError> {
        let document = dialect::yaml::document(text, dialect::yaml::Aliases::Trusted)
            .map_err(|error| PolicyError(vec![format!("it is not YAML: {error}")]))?;
        let mut reader = Reader {
            errors: Vec::new(),
            warnings: Vec::new(),
        };
        let rules = reader.policy(&document);
        if !reader.errors.is_empty() {
            return Err(PolicyError(reader.errors));
        }
        Ok(Self {
            rules,
            warnings: reader.warnings,
        })
    }

    /// Fields that nobody knows. They do nothing, as in Kubernetes.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether any rule records events of a stage.
    pub(super) fn records(&self, stage: Stage) -> bool {
        let mut treatments = self.rules.iter().map(|rule| rule.treatment);
        treatments.any(|it| it.level != Level::None && !it.omitted.has(stage))
    }

    /// Says what is recorded of a request; `user` is `None` where the sender is not known.
    pub(super) fn treatment(&self, user: Option<&UserInfo>, info: &RequestInfo) -> Treatment {
        let rule = self.rules.iter().find(|rule| rule.matches(user, info));
        rule.map_or(Treatment::NONE, |rule| rule.treatment)
    }
}

// === impl Rule ===

impl Rule {
    fn matches(&self, user: Option<&UserInfo>, info: &RequestInfo) -> bool {
        let is_known = |names: &[String], name: &str| names.iter().any(|it| it == name);
        if !self.users.is_empty() && !user.is_some_and(|user| is_known(&self.users, &user.username))
        {
            return false;
        }
        let is_member = |user: &UserInfo| user.groups.iter().any(|it| is_known(&self.groups, it));
        if !self.groups.is_empty() && !user.is_some_and(is_member) {
            return false;
        }
        if !self.verbs.is_empty() && !is_known(&self.verbs, info.verb.as_str()) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return info.is_resource
                && (self.namespaces.is_empty() || is_known(&self.namespaces, &info.namespace))
                && (self.resources.is_empty() || self.resources.iter().any(|it| it.matches(info)));
        }
        self.paths.is_empty()
            || (!info.is_resource && self.paths.iter().any(|it| path_matches(it, &info.path)))
    }
}

fn path_matches(pattern: &str, path: &str) -> bool {
    pattern == path
        || pattern
            .strip_suffix('*')
            .is_some_and(|prefix| path.starts_with(prefix.trim_end_matches('*')))
}

// === impl Resources ===

impl Resources {
    fn matches(&self, info: &RequestInfo) -> bool {
        if self.group != "*" && self.group != info.group {
            return false;
        }
        if self.patterns.is_empty() {
            return true;
        }
        let is_named = self.names.is_empty() || self.names.contains(&info.name);
        is_named && self.patterns.iter().any(|it| resource_matches(it, info))
    }
}

fn resource_matches(pattern: &str, info: &RequestInfo) -> bool {
    let RequestInfo {
        resource,
        subresource,
        ..
    } = info;
    if pattern == "*" {
        return true;
    }
    match pattern.split_once('/') {
        None => subresource.is_empty() && pattern == resource,
        // As in Kubernetes, `pods/*` matches `pods` too.
        Some((wanted, "*")) if wanted == resource => true,
        Some((wanted, sub)) => {
            !subresource.is_empty() && sub == subresource && (wanted == "*" || wanted == resource)
        }
    }
}

// === impl Reader ===

impl Reader {
    fn policy(&mut self, document: &Value) -> Vec<Rule> {
        let Some(fields) = document.as_object() else {
            self.wrong(
                "",
                "it holds no object: begin with \"apiVersion: audit.k8s.io/v1\"",
            );
            return Vec::new();
        };
        self.check_known(
            fields,
            "",
            &[
                "apiVersion",
                "kind",
                "metadata",
                "rules",
                "omitStages",
                "omitManagedFields",
            ],
        );
        for (name, want) in [("apiVersion", API_VERSION), ("kind", "Policy")] {
            let found = fields.get(name).and_then(Value::as_str).unwrap_or_default();
            if found != want {
                self.wrong(name, &format!("it is {found:?}: write {want:?}"));
            }
        }
        let omitted = self.stages(fields, "");
        let managed_fields = self
            .managed_fields(fields, "")
            .unwrap_or(ManagedFields::Kept);
        let rules = match fields.get("rules") {
            Some(Value::Array(rules)) => rules.as_slice(),
            None | Some(Value::Null) => &[],
            Some(_) => {
                self.wrong("rules", "it is no list");
                return Vec::new();
            }
        };
        if rules.is_empty() {
            let text = "a policy without a rule records nothing: add one, as \"- level: Metadata\"";
            self.wrong("rules", text);
        }
        let defaults = Treatment {
            level: Level::None,
            omitted,
            managed_fields,
        };
        let rules = rules.iter().enumerate();
        rules
            .filter_map(|(index, rule)| self.rule(rule, &format!("rules[{index}]"), defaults))
            .collect()
    }

    fn rule(&mut self, rule: &Value, path: &str, defaults: Treatment) -> Option<Rule> {
        let Some(fields) = rule.as_object() else {
            self.wrong(path, "it is no object");
            return None;
        };
        self.check_known(
            fields,
            path,
            &[
                "level",
                "users",
                "userGroups",
                "verbs",
                "resources",
                "namespaces",
                "nonResourceURLs",
                "omitStages",
                "omitManagedFields",
            ],
        );
        let rule = Rule {
            treatment: Treatment {
                level: self.level(fields, path),
                omitted: defaults.omitted.or(self.stages(fields, path)),
                managed_fields: self
                    .managed_fields(fields, path)
                    .unwrap_or(defaults.managed_fields),
            },
            users: self.texts(fields, path, "users"),
            groups: self.texts(fields, path, "userGroups"),
            verbs: self.texts(fields, path, "verbs"),
            resources: self.resources(fields, path),
            namespaces: self.texts(fields, path, "namespaces"),
            paths: self.texts(fields, path, "nonResourceURLs"),
        };
        for (index, pattern) in rule.paths.iter().enumerate() {
            self.check_path(pattern, &format!("{path}.nonResourceURLs[{index}]"));
        }
        let is_about_resources = !rule.resources.is_empty() || !rule.namespaces.is_empty();
        if is_about_resources && !rule.paths.is_empty() {
            let text = "a rule is about resources or about other paths: make two of it";
            self.wrong(&format!("{path}.nonResourceURLs"), text);
        }
        Some(rule)
    }

    fn check_path(&mut self, pattern: &str, path: &str) {
        if pattern == "*" {
            return;
        }
        if !pattern.starts_with('/') {
            self.wrong(
                path,
                &format!("{pattern:?} must begin with \"/\", or be \"*\""),
            );
        }
        let stem = pattern.strip_suffix('*').unwrap_or(pattern);
        if stem.contains('*') {
            let text = format!("{pattern:?} may have \"*\" as its last character only");
            self.wrong(path, &text);
        }
    }

    fn level(&mut self, fields: &Map<String, Value>, path: &str) -> Level {
        let found = fields.get("level").and_then(Value::as_str);
        let known = LEVELS.into_iter().find(|it| Some(it.as_str()) == found);
        known.unwrap_or_else(|| {
            let words = LEVELS.map(Level::as_str).join(", ");
            let found = found.unwrap_or_default();
            self.wrong(
                &format!("{path}.level"),
                &format!("it is {found:?}: write one of {words}"),
            );
            Level::None
        })
    }

    fn stages(&mut self, fields: &Map<String, Value>, path: &str) -> Stages {
        let mut stages = Stages::default();
        for (index, text) in self.texts(fields, path, "omitStages").iter().enumerate() {
            if let Some(stage) = Stage::ALL.into_iter().find(|stage| stage.as_str() == text) {
                stages = stages.with(stage);
                continue;
            }
            let words = Stage::ALL.map(Stage::as_str).join(", ");
            self.wrong(
                &format!("{}[{index}]", joined(path, "omitStages")),
                &format!("there is no stage {text:?}: write one of {words}"),
            );
        }
        stages
    }

    fn managed_fields(&mut self, fields: &Map<String, Value>, path: &str) -> Option<ManagedFields> {
        match fields.get("omitManagedFields") {
            None | Some(Value::Null) => None,
            Some(Value::Bool(true)) => Some(ManagedFields::Omitted),
            Some(Value::Bool(false)) => Some(ManagedFields::Kept),
            Some(_) => {
                self.wrong(&joined(path, "omitManagedFields"), "write true or false");
                None
            }
        }
    }

    fn resources(&mut self, fields: &Map<String, Value>, path: &str) -> Vec<Resources> {
        let path = joined(path, "resources");
        let entries = match fields.get("resources") {
            None | Some(Value::Null) => return Vec::new(),
            Some(Value::Array(entries)) => entries,
            Some(_) => {
                self.wrong(&path, "it is no list");
                return Vec::new();
            }
        };
        let mut resources = Vec::with_capacity(entries.len());
        for (index, entry) in entries.iter().enumerate() {
            let path = format!("{path}[{index}]");
            let Some(fields) = entry.as_object() else {
                let text = "it is no object: write \"- group: ''\" and \"resources: [pods]\"";
                self.wrong(&path, text);
                continue;
            };
            self.check_known(fields, &path, &["group", "resources", "resourceNames"]);
            let group = match fields.get("group") {
                None | Some(Value::Null) => "",
                Some(Value::String(group)) => group,
                Some(_) => {
                    self.wrong(&joined(&path, "group"), "it is no text");
                    continue;
                }
            };
            let wrong = is_dns_subdomain(group);
            if !group.is_empty() && group != "*" && !wrong.is_empty() {
                let text = format!(
                    "{group:?} is no group (without its version): {}",
                    wrong.join(", ")
                );
                self.wrong(&joined(&path, "group"), &text);
            }
            let entry = Resources {
                group: group.to_owned(),
                patterns: self.texts(fields, &path, "resources"),
                names: self.texts(fields, &path, "resourceNames"),
            };
            if !entry.names.is_empty() && entry.patterns.is_empty() {
                let text = "names need at least one resource: add \"resources\"";
                self.wrong(&joined(&path, "resourceNames"), text);
            }
            resources.push(entry);
        }
        resources
    }

    fn texts(&mut self, fields: &Map<String, Value>, path: &str, name: &str) -> Vec<String> {
        let texts = match fields.get(name) {
            None | Some(Value::Null) => Some(Vec::new()),
            Some(Value::Array(texts)) => {
                let texts = texts.iter().map(|text| text.as_str().map(str::to_owned));
                texts.collect()
            }
            Some(_) => None,
        };
        texts.unwrap_or_else(|| {
            self.wrong(&joined(path, name), "it is no list of texts");
            Vec::new()
        })
    }

    fn check_known(&mut self, fields: &Map<String, Value>, path: &str, known: &[&str]) {
        for name in fields.keys().filter(|name| !known.contains(&name.as_str())) {
            let text = format!(
                "{}: nobody knows this field, it does nothing",
                joined(path, name)
            );
            self.warnings.push(text);
        }
    }

    fn wrong(&mut self, path: &str, detail: &str) {
        self.errors.push(match path {
            "" => detail.to_owned(),
            path => format!("{path}: {detail}"),
        });
    }
}

fn joined(path: &str, name: &str) -> String {
    match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    }
}

// === impl PolicyError ===

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("; "))
    }
}

impl std::error::Error for PolicyError {}

#[cfg(test)]
mod tests;
