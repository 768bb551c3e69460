//! The ways to the clusters of ClusterProfiles: the access providers that the operator of a hub has set up.
//!
//! # Invariants
//! - Which program runs is the operator's alone to say. A profile adds arguments and variables only where the operator lets the
//!   profiles of a provider do so.
//! - What one profile adds reaches no other: each has a plug-in of its own.
//! - A profile names no file of the hub's machine, and sets no variable that says which program runs or what it loads.
//! - What a profile has the hub keep and hand over is bounded.
//!
//! Source: KEP-5339; `kubernetes-sigs/cluster-inventory-api`, `pkg/access/config.go`.

use std::fmt;

use api::inventory::{EXTENSION_ARGS, EXTENSION_ENVS, EXTENSION_EXEC};
use serde_json::{Map, Value, json};

use crate::plugin::{self, Plugin};

/// The access providers of a hub, in the order in which they are preferred.
#[derive(Clone, Default)]
pub struct AccessProviders {
    providers: Vec<AccessProvider>,
}

/// Why a list of access providers cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccessProvidersError {
    /// It is not what it should be.
    #[error("it is no JSON object with a list of providers that have names")]
    Malformed,
    /// A provider has no program.
    #[error("provider {0:?} has no execConfig with apiVersion and command")]
    NoProgram(String),
    /// A provider has a policy that is none.
    #[error("provider {provider:?} has {field} {value:?}, which is not one of {known}")]
    Policy {
        /// The provider.
        provider: String,
        /// The field.
        field: &'static str,
        /// What it has.
        value: String,
        /// What it may have.
        known: &'static str,
    },
}

#[derive(Clone)]
struct AccessProvider {
    name: String,
    plugin: Plugin,
    is_told: bool,
    arguments: Arguments,
    variables: Variables,
}

/// What becomes of arguments that a profile brings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arguments {
    Ignore,
    Append,
}

/// What becomes of variables that a profile brings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Variables {
    Ignore,
    AppendIfNotExists,
    Replace,
}

/// A way to a cluster.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Way {
    /// The cluster of a kubeconfig.
    pub(crate) cluster: Value,
    /// What prints the credential.
    pub(crate) plugin: Plugin,
}

/// What of a cluster a profile may say.
const CLUSTER_FIELDS: [&str; 6] = [
    "server",
    "tls-server-name",
    "insecure-skip-tls-verify",
    "certificate-authority-data",
    "proxy-url",
    "disable-compression",
];

/// How much of a profile is handed to a plug-in. Linux takes 128 KiB as one variable (`MAX_ARG_STRLEN`).
const BROUGHT_BYTES_MAX: usize = 64 << 10;
/// How many arguments or variables a profile may bring.
const BROUGHT_COUNT_MAX: usize = 64;

/// How much of a name that a profile brings is in a message.
const SHOWN_CHARS_MAX: usize = 64;

/// Variables by which shells, loaders and interpreters run or load what they name. The list cannot be whole: that is why an
/// operator says whether profiles may set any.
const LOADING: [&str; 15] = [
    "ENV",
    "IFS",
    "PS4",
    "SHELL",
    "SHELLOPTS",
    "GCONV_PATH",
    "GETCONF_DIR",
    "GLIBC_TUNABLES",
    "HOSTALIASES",
    "LOCPATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
];
/// What the names of further ones begin with.
const LOADING_PREFIXES: [&str; 7] = ["LD_", "DYLD_", "BASH", "PYTHON", "PERL5", "RUBY", "GIT_"];

// === impl AccessProviders ===

impl AccessProviders {
    /// Reads the list as controllers of the inventory have it (`--clusterprofile-provider-file`).
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn parse(text: &str) -> Result<Self, AccessProvidersError> {
        let malformed = || AccessProvidersError::Malformed;
        let file: Value = serde_json::from_str(text).map_err(|_unsaid| malformed())?;
        let providers = file["providers"].as_array().ok_or_else(malformed)?;
        let providers = providers.iter().map(AccessProvider::parse);
        Ok(Self {
            providers: providers.collect::<Result<_, _>>()?,
        })
    }

    /// Returns the names of all.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.providers.iter().map(|it| it.name.as_str()).collect();
        names.join(", ")
    }

    /// Returns the way to the cluster of a profile: of the first provider that the profile has too. `None` where it has none of
    /// them; the error is why that one cannot be used.
    pub(crate) fn way(&self, profile: &Value) -> Option<Result<Way, String>> {
        let status = &profile["status"];
        let find = |field: &str, name: &str| {
            let mut entries = status[field].as_array().into_iter().flatten();
            entries.find(|it| it["name"] == name)
        };
        let mut providers = self.providers.iter();
        let (provider, entry) = providers.find_map(|provider| {
            let name = provider.name.as_str();
            let entry = find("accessProviders", name).or_else(|| find("credentialProviders", name));
            Some((provider, entry?))
        })?;
        Some(provider.way(&entry["cluster"]))
    }
}

impl fmt::Debug for AccessProviders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.providers.iter().map(|it| &it.name))
            .finish()
    }
}

// === impl AccessProvider ===

impl AccessProvider {
    fn parse(value: &Value) -> Result<Self, AccessProvidersError> {
        let name = value["name"].as_str().filter(|it| !it.is_empty());
        let name = name.ok_or(AccessProvidersError::Malformed)?.to_owned();
        let exec = &value["execConfig"];
        let Some(plugin) = Plugin::parse(exec) else {
            return Err(AccessProvidersError::NoProgram(name));
        };
        let refused = |field: &'static str, value: &Value, known| AccessProvidersError::Policy {
            provider: name.clone(),
            field,
            value: value.to_string(),
            known,
        };
        let field = "profileSourcedCLIArgsPolicy";
        let arguments = match value[field].as_str().unwrap_or_default() {
            "" | "Ignore" => Arguments::Ignore,
            "Append" => Arguments::Append,
            _ => return Err(refused(field, &value[field], "Ignore, Append")),
        };
        let field = "profileSourcedEnvVarsPolicy";
        let variables = match value[field].as_str().unwrap_or_default() {
            "" | "Ignore" => Variables::Ignore,
            "AppendIfNotExists" => Variables::AppendIfNotExists,
            "Replace" => Variables::Replace,
            _ => {
                let known = "Ignore, AppendIfNotExists, Replace";
                return Err(refused(field, &value[field], known));
            }
        };
        Ok(Self {
            plugin,
            is_told: exec["provideClusterInfo"] == true,
            arguments,
            variables,
            name,
        })
    }

    fn way(&self, described: &Value) -> Result<Way, String> {
        if described.to_string().len() > BROUGHT_BYTES_MAX {
            return Err(format!(
                "its cluster has more than {BROUGHT_BYTES_MAX} bytes"
            ));
        }
        let mut cluster = Map::new();
        for field in CLUSTER_FIELDS {
            if let Some(value) = described.get(field).filter(|it| !it.is_null()) {
                cluster.insert(field.to_owned(), value.clone());
            }
        }
        let cluster = Value::Object(cluster);
        let mut plugin = self.plugin.clone();
        if self.arguments == Arguments::Append
            && let Some(added) = extension(described, EXTENSION_ARGS)
        {
            let added: Vec<String> = serde_json::from_value(added.clone())
                .map_err(|_unsaid| format!("extension {EXTENSION_ARGS} is no list of texts"))?;
            if added.len() > BROUGHT_COUNT_MAX {
                return Err(format!("extension {EXTENSION_ARGS} has too many arguments"));
            }
            plugin.args.extend(added);
        }
        if self.variables != Variables::Ignore
            && let Some(added) = extension(described, EXTENSION_ENVS)
        {
            let added: Map<String, Value> = serde_json::from_value(added.clone())
                .map_err(|_unsaid| format!("extension {EXTENSION_ENVS} is no map of texts"))?;
            if added.len() > BROUGHT_COUNT_MAX {
                return Err(format!("extension {EXTENSION_ENVS} has too many variables"));
            }
            for (name, value) in added {
                if !may_be_set(&name) {
                    let shown: String = name.chars().take(SHOWN_CHARS_MAX).collect();
                    return Err(format!("extension {EXTENSION_ENVS} may not set {shown:?}"));
                }
                let value = value.as_str().map(str::to_owned);
                let value = value
                    .ok_or_else(|| format!("extension {EXTENSION_ENVS} is no map of texts"))?;
                self.set(&mut plugin.env, name, value);
            }
        }
        if self.is_told {
            plugin.cluster = Some(told(described));
        }
        Ok(Way { cluster, plugin })
    }

    fn set(&self, env: &mut Vec<(String, String)>, name: String, value: String) {
        match env.iter_mut().find(|(known, _)| *known == name) {
            None => env.push((name, value)),
            Some(known) if self.variables == Variables::Replace => known.1 = value,
            Some(_) => {} // the operator's counts
        }
    }
}

/// Whether a profile may set a variable, where the operator lets profiles do so: it neither says which program runs or what that
/// loads, nor is it one by which the operator says where programs find proxies and certificates.
fn may_be_set(name: &str) -> bool {
    let is_name = name
        .bytes()
        .all(|it| it.is_ascii_alphanumeric() || it == b'_');
    is_name
        && !name.is_empty()
        && name != plugin::INFO
        && !plugin::PASSED.contains(&name)
        && !LOADING.contains(&name)
        && !LOADING_PREFIXES.iter().any(|it| name.starts_with(it))
}

/// Returns what a plug-in is told of a cluster of a kubeconfig or a profile.
///
/// Source: client-go `pkg/apis/clientauthentication/types.go` (`Cluster`).
pub(crate) fn told(cluster: &Value) -> Value {
    let mut told = json!({});
    for field in CLUSTER_FIELDS {
        if let Some(value) = cluster.get(field).filter(|it| !it.is_null()) {
            told[field] = value.clone();
        }
    }
    if let Some(config) = extension(cluster, EXTENSION_EXEC) {
        told["config"] = config.clone();
    }
    told
}

fn extension<'c>(cluster: &'c Value, name: &str) -> Option<&'c Value> {
    let mut extensions = cluster["extensions"].as_array()?.iter();
    let found = extensions.find(|it| it["name"] == name)?;
    found.get("extension")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn providers(rest: &Value) -> AccessProviders {
        let mut cloud = json!({"name": "cloud", "execConfig": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "login", "args": ["a"],
            "env": [{"name": "ZONE", "value": "of-operator"}], "provideClusterInfo": true}});
        for (field, value) in rest.as_object().expect("an object") {
            cloud[field] = value.clone();
        }
        let first =
            json!({"name": "first", "execConfig": {"apiVersion": "v1", "command": "first"}});
        let text = json!({"providers": [first, cloud]}).to_string();
        AccessProviders::parse(&text).expect("they can be used")
    }

    fn profile(server: &str, args: &Value, envs: &Value) -> Value {
        json!({"status": {
        "credentialProviders": [{"name": "cloud", "cluster": {"server": "https://old"}}],
        "accessProviders": [{"name": "other", "cluster": {}}, {"name": "cloud", "cluster": {
            "server": server, "certificate-authority": "/etc/passwd", "extensions": [
                {"name": EXTENSION_EXEC, "extension": {"project": server}},
                {"name": EXTENSION_ARGS, "extension": args},
                {"name": EXTENSION_ENVS, "extension": envs},
        ]}}]}})
    }

    #[test]
    fn what_a_profile_adds_is_added_where_the_operator_lets_it_and_to_its_own_program() {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let (args, envs) = (json!(["b"]), json!({"ZONE": "of-profile", "X": "1"}));
        let operators = || vec![pair("ZONE", "of-operator")];
        for (name, rest, want_args, want_env) in [
            ("ignored", json!({}), vec!["a"], operators()),
            (
                "appended",
                json!({"profileSourcedCLIArgsPolicy": "Append", "profileSourcedEnvVarsPolicy": "AppendIfNotExists"}),
                vec!["a", "b"],
                vec![pair("ZONE", "of-operator"), pair("X", "1")],
            ),
            (
                "replaced",
                json!({"profileSourcedEnvVarsPolicy": "Replace"}),
                vec!["a"],
                vec![pair("ZONE", "of-profile"), pair("X", "1")],
            ),
        ] {
            let providers = providers(&rest);
            for server in ["https://east", "https://west"] {
                let way = providers.way(&profile(server, &args, &envs));
                let way = way.expect("a provider fits").expect("it can be used");
                assert_eq!(way.plugin.args, want_args, "{name}");
                let mut env = way.plugin.env.clone();
                env.sort_by_key(|(name, _)| name != "ZONE");
                assert_eq!(env, want_env, "{name}");
                assert_eq!(way.cluster, json!({"server": server}), "no file is named");
                let told = way.plugin.cluster.expect("it is told");
                assert_eq!(told["config"]["project"], server, "{name}");
            }
        }
        let open = providers(&json!({"profileSourcedEnvVarsPolicy": "Replace"}));
        for name in [
            "PATH",
            "LD_PRELOAD",
            "BASH_ENV",
            "HTTPS_PROXY",
            "PATH=/x",
            "",
            "KUBERNETES_EXEC_INFO",
        ] {
            let wrong = open.way(&profile("https://east", &args, &json!({name: "1"})));
            assert!(wrong.is_some_and(|it| it.is_err()), "{name}");
        }
        let large = json!({"X": "x".repeat(BROUGHT_BYTES_MAX)});
        let wrong = open.way(&profile("https://east", &args, &large));
        assert!(wrong.is_some_and(|it| it.is_err()), "too large");
        let strict = providers(&json!({"profileSourcedCLIArgsPolicy": "Append"}));
        let wrong = strict.way(&profile("https://east", &json!({"a": 1}), &envs));
        assert!(wrong.is_some_and(|it| it.is_err()), "no list");
        assert!(strict.way(&json!({"status": {}})).is_none(), "none fits");
    }

    #[test]
    fn a_list_of_providers_that_cannot_be_used_says_why() {
        let exec = json!({"apiVersion": "v1", "command": "x"});
        for (file, want) in [
            (json!([]), AccessProvidersError::Malformed),
            (
                json!({"providers": [{"execConfig": exec}]}),
                AccessProvidersError::Malformed,
            ),
            (
                json!({"providers": [{"name": "a", "execConfig": {"command": "x"}}]}),
                AccessProvidersError::NoProgram("a".to_owned()),
            ),
        ] {
            let got = AccessProviders::parse(&file.to_string()).err();
            assert_eq!(got, Some(want), "{file}");
        }
        let odd = json!({"providers": [{"name": "a", "execConfig": exec, "profileSourcedCLIArgsPolicy": "append"}]});
        let error = AccessProviders::parse(&odd.to_string()).expect_err("no policy");
        assert!(error.to_string().contains("Ignore, Append"), "{error}");
    }
}
