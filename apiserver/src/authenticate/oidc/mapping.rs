//! From the claims of a token to a user.
//!
//! Source: `apiserver/plugin/pkg/authenticator/token/oidc/oidc.go`, `apiserver/pkg/authentication/cel/compile.go`.

use std::{collections::BTreeMap, sync::LazyLock};

use expressions::{Allowance, Bindings, DeclType, Declarations, Environment, Program, Unevaluated};
use serde_json::{Value, json};

use crate::request::{CREDENTIAL_ID, UserInfo};

/// What makes a user of claims.
#[derive(Debug)]
pub(super) struct Mapping {
    pub(super) username: Source,
    pub(super) groups: Option<Source>,
    pub(super) uid: Option<Source>,
    pub(super) extra: Vec<(String, Program)>,
    /// Claims that must have these values.
    pub(super) required: Vec<(String, String)>,
    pub(super) claim_rules: Vec<Rule>,
    pub(super) user_rules: Vec<Rule>,
}

/// Where a value comes from.
#[derive(Debug)]
pub(super) enum Source {
    Claim { name: String, prefix: String },
    Expression(Program),
}

/// What must hold.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) program: Program,
    pub(super) message: String,
}

/// Claims, and what their expressions may still cost.
struct Claims<'a> {
    claims: &'a Value,
    allowance: Allowance,
}

/// Compiles an expression over `claims`.
///
/// # Errors
/// In Kubernetes' words.
pub(super) fn over_claims(source: &str) -> Result<Program, String> {
    static CLAIMS: LazyLock<Declarations> = LazyLock::new(|| {
        let claims = DeclType::map(DeclType::String, DeclType::Dyn);
        Declarations::new().with("claims", claims)
    });
    compile(source, &CLAIMS)
}

/// Compiles an expression over `user`.
///
/// # Errors
/// In Kubernetes' words.
pub(super) fn over_user(source: &str) -> Result<Program, String> {
    static USER: LazyLock<Declarations> = LazyLock::new(|| {
        let texts = || DeclType::list(DeclType::String);
        let fields = [
            ("username".to_owned(), DeclType::String),
            ("uid".to_owned(), DeclType::String),
            ("groups".to_owned(), texts()),
            ("extra".to_owned(), DeclType::map(DeclType::String, texts())),
        ];
        Declarations::new().with("user", DeclType::object("kubernetes.UserInfo", fields))
    });
    compile(source, &USER)
}

fn compile(source: &str, declarations: &Declarations) -> Result<Program, String> {
    let compiled = Environment::validation().compile(source, declarations);
    compiled.map_err(|error| format!("compilation failed: {error}"))
}

/// Whether an expression reads a claim by its name.
pub(super) fn reads_claim(program: &Program, claim: &str) -> bool {
    let is_plain = program
        .paths()
        .iter()
        .any(|path| path.root == "claims" && path.fields.first().is_some_and(|it| it == claim));
    let optional = format!("claims.?{claim}");
    let ends = |rest: &str| !rest.starts_with(|next: char| next.is_alphanumeric() || next == '_');
    is_plain || program.source().split(&optional).skip(1).any(ends)
}

// === impl Mapping ===

impl Mapping {
    /// Makes a user, as the issuer describes them: nothing says yet whether the names may be theirs.
    ///
    /// # Errors
    /// Why the claims make none.
    pub(super) fn user(&self, claims: &Value) -> Result<UserInfo, String> {
        let mut claims = Claims {
            claims,
            allowance: Allowance::DEFAULT,
        };
        let username = self.username(&mut claims)?;
        let groups = self.groups(&mut claims)?;
        let uid = match &self.uid {
            None => String::new(),
            Some(Source::Claim { name, .. }) => claims.text(name, "uid")?,
            Some(Source::Expression(program)) => match claims.evaluate(program, "uid")? {
                Value::String(uid) => uid,
                _ => return Err("uid claim expression must return a string".to_owned()),
            },
        };
        let mut extra = BTreeMap::new();
        if let Some(Value::String(id)) = claims.claims.get("jti") {
            extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        for (key, program) in &self.extra {
            let values = texts(&claims.evaluate(program, "extra")?)?;
            if !values.is_empty() {
                extra.insert(key.clone(), values);
            }
        }
        self.check_claims(&mut claims)?;
        let user = UserInfo::claimed(username, uid, groups, extra);
        self.check_user(&user, claims.allowance)?;
        Ok(user)
    }

    fn username(&self, claims: &mut Claims<'_>) -> Result<String, String> {
        let username = match &self.username {
            Source::Expression(program) => match claims.evaluate(program, "username")? {
                Value::String(username) => username,
                _ => return Err("username claim expression must return a string".to_owned()),
            },
            Source::Claim { name, prefix } => {
                let own = claims.text(name, "username")?;
                // Source: OpenID Connect Core 1.0 section 5.1.
                let is_verified = claims.claims.get("email_verified");
                if name == "email" && is_verified.is_some_and(|it| *it != true) {
                    return Err("email not verified".to_owned());
                }
                if own.is_empty() {
                    String::new()
                } else {
                    format!("{prefix}{own}")
                }
            }
        };
        if username.is_empty() {
            return Err("empty username is not allowed".to_owned());
        }
        Ok(username)
    }

    fn groups(&self, claims: &mut Claims<'_>) -> Result<Vec<String>, String> {
        match &self.groups {
            None => Ok(Vec::new()),
            Some(Source::Expression(program)) => texts(&claims.evaluate(program, "groups")?),
            Some(Source::Claim { name, prefix }) => {
                let Some(claim) = claims.claims.get(name) else {
                    // Whoever is in the groups that are kept elsewhere must not pass for one who is in none.
                    let elsewhere = claims.claims.pointer("/_claim_names");
                    if elsewhere.is_some_and(|it| it.get(name).is_some()) {
                        return Err(format!(
                            "claim {name:?} is distributed, which is not supported"
                        ));
                    }
                    return Ok(Vec::new());
                };
                let groups = texts_of(claim).ok_or_else(|| {
                    format!("groups claim {name:?} is no string or list of strings")
                })?;
                Ok(groups
                    .iter()
                    .map(|group| format!("{prefix}{group}"))
                    .collect())
            }
        }
    }

    fn check_claims(&self, claims: &mut Claims<'_>) -> Result<(), String> {
        for (name, want) in &self.required {
            match claims.claims.get(name) {
                None => return Err(format!("required claim {name} not present in ID token")),
                Some(Value::String(found)) if found == want => {}
                Some(_) => return Err(format!("required claim {name} value does not match")),
            }
        }
        for rule in &self.claim_rules {
            rule.judge(&claims.evaluate(&rule.program, "claim validation")?)?;
        }
        Ok(())
    }

    fn check_user(&self, user: &UserInfo, mut allowance: Allowance) -> Result<(), String> {
        if self.user_rules.is_empty() {
            return Ok(());
        }
        let described = json!({
            "username": user.username, "uid": user.uid, "groups": user.groups, "extra": user.extra,
        });
        for rule in &self.user_rules {
            let mut bindings = Bindings::new();
            bindings.json("user", &described);
            let found = evaluate(&rule.program, &bindings, &mut allowance);
            let found = found.map_err(|error| failed("user validation", &error))?;
            rule.judge(&found)?;
        }
        Ok(())
    }
}

// === impl Rule ===

impl Rule {
    fn judge(&self, found: &Value) -> Result<(), String> {
        if *found == true {
            return Ok(());
        }
        let (expression, message) = (self.program.source(), &self.message);
        Err(format!(
            "validation expression '{expression}' failed: {message}"
        ))
    }
}

// === impl Claims ===

impl Claims<'_> {
    fn text(&self, name: &str, what: &str) -> Result<String, String> {
        let claim = self.claims.get(name).and_then(Value::as_str);
        let claim = claim.ok_or_else(|| format!("{what} claim {name:?} is no string"))?;
        Ok(claim.to_owned())
    }

    fn evaluate(&mut self, program: &Program, what: &str) -> Result<Value, String> {
        let mut bindings = Bindings::new();
        bindings.json("claims", self.claims);
        evaluate(program, &bindings, &mut self.allowance).map_err(|error| failed(what, &error))
    }
}

fn evaluate(
    program: &Program,
    bindings: &Bindings<'_>,
    allowance: &mut Allowance,
) -> Result<Value, String> {
    let result = allowance.evaluate(program, bindings);
    let value = result.map_err(|why| match why {
        Unevaluated::Exhausted => "the expressions of one token cost too much together".to_owned(),
        Unevaluated::Failed(error) => error.to_string(),
    })?;
    value.to_json().map_err(|error| error.to_string())
}

fn failed(what: &str, error: &str) -> String {
    format!("error evaluating {what} expression: {error}")
}

/// Reads what an expression of texts has come to: `""`, `[]` and `null` are nothing, and so is an empty text of a list.
///
/// Source: `convertCELValueToStringList`.
fn texts(value: &Value) -> Result<Vec<String>, String> {
    if value.is_null() {
        return Ok(Vec::new());
    }
    let mut texts = texts_of(value)
        .ok_or_else(|| "expression must return a string or a list of strings".to_owned())?;
    texts.retain(|text| !text.is_empty());
    Ok(texts)
}

fn texts_of(value: &Value) -> Option<Vec<String>> {
    match value {
        Value::String(one) => Some(vec![one.clone()]),
        Value::Array(several) => {
            let several = several.iter();
            several.map(|it| it.as_str().map(str::to_owned)).collect()
        }
        _ => None,
    }
}
