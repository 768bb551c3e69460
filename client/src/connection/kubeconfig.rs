//! Where the credential of a kubeconfig comes from.
//!
//! Whoever may write the Secret of a spoke chooses its kubeconfig. One that names a program or a file would run the
//! program and read the file as the hub, so such a kubeconfig is for the command line alone. Nor may its text cost more
//! than it is long: aliases of aliases make seconds of work of four hundred bytes.

use kube::config::{AuthInfo, Cluster, Context, Kubeconfig, KubeconfigError};

use crate::error::Error;

/// Where a credential may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialSources {
    /// From the text of the kubeconfig alone.
    Inline,
    /// Also from programs and files that it names; for a kubeconfig of the user's own.
    Anywhere,
}

/// What aliases may add to a kubeconfig: a certificate that two clusters share is one event.
const ALIAS_EVENTS_MAX: usize = 1000;
/// What is kept for aliases: everything behind an anchor, once for each anchor around it.
const ANCHOR_EVENTS_MAX: usize = 10_000;

/// Reads a kubeconfig, of several documents where there are such. The error shows nothing of the text, which holds a
/// credential.
///
/// Source: `kube::config::Kubeconfig::from_yaml`.
pub(super) fn parse(text: &str) -> Result<Kubeconfig, KubeconfigError> {
    let mut options = serde_saphyr::Options::default();
    options.with_snippet = false;
    options.alias_limits.max_total_replayed_events = ALIAS_EVENTS_MAX;
    if let Some(budget) = &mut options.budget {
        budget.max_recorded_anchor_events = ANCHOR_EVENTS_MAX;
    }
    let documents: Vec<Kubeconfig> = serde_saphyr::from_multiple_with_options(text, options)
        .map_err(|source| KubeconfigError::Parse(Box::new(source)))?;
    documents
        .into_iter()
        .try_fold(Kubeconfig::default(), Kubeconfig::merge)
}

/// Refuses what the sources do not allow.
pub(super) fn judge(
    kubeconfig: &Kubeconfig,
    context: Option<&str>,
    sources: CredentialSources,
) -> Result<(), Error> {
    if sources == CredentialSources::Anywhere {
        return Ok(());
    }
    let Some(context) = selected(kubeconfig, context) else {
        // The one who reads the configuration says so better.
        return Ok(());
    };
    let cluster = kubeconfig
        .clusters
        .iter()
        .find(|it| it.name == context.cluster);
    let outside = cluster
        .and_then(|it| it.cluster.as_ref())
        .and_then(outside_of_cluster);
    let user = context.user.as_deref().unwrap_or_default();
    let user = kubeconfig.auth_infos.iter().find(|it| it.name == user);
    let outside = outside.or_else(|| user?.auth_info.as_ref().and_then(outside_of_user));
    match outside {
        None => Ok(()),
        Some(field) => Err(Error::Config(format!(
            "{field} is not allowed here; the credential must stand in the kubeconfig itself"
        ))),
    }
}

fn selected<'k>(kubeconfig: &'k Kubeconfig, context: Option<&str>) -> Option<&'k Context> {
    let name = context.or(kubeconfig.current_context.as_deref())?;
    kubeconfig
        .contexts
        .iter()
        .find(|it| it.name == name)?
        .context
        .as_ref()
}

fn outside_of_cluster(cluster: &Cluster) -> Option<&'static str> {
    cluster
        .certificate_authority
        .as_ref()
        .map(|_| "certificate-authority")
}

fn outside_of_user(user: &AuthInfo) -> Option<&'static str> {
    let fields = [
        ("exec", user.exec.is_some()),
        ("auth-provider", user.auth_provider.is_some()),
        ("tokenFile", user.token_file.is_some()),
        ("client-certificate", user.client_certificate.is_some()),
        ("client-key", user.client_key.is_some()),
        // The hub impersonates users itself; two users in one request would be neither.
        (
            "as",
            user.impersonate.is_some() || user.impersonate_groups.is_some(),
        ),
    ];
    fields
        .into_iter()
        .find(|(_, is_set)| *is_set)
        .map(|(field, _)| field)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(cluster: &str, user: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: 'https://a'{cluster}}}}}]\n\
             users: [{{name: u, user: {{{user}}}}}, {{name: other, user: {{exec: {{command: sh}}}}}}]\n"
        )
    }

    #[test]
    fn a_credential_from_outside_of_the_text_is_refused() {
        for (cluster, user, want) in [
            ("", "token: t", None),
            (
                "",
                "client-certificate-data: YQ==, client-key-data: YQ==",
                None,
            ),
            (", certificate-authority-data: YQ==", "token: t", None),
            (
                ", certificate-authority: /etc/passwd",
                "token: t",
                Some("certificate-authority"),
            ),
            ("", "tokenFile: /etc/shadow", Some("tokenFile")),
            ("", "client-key: /k", Some("client-key")),
            ("", "client-certificate: /c", Some("client-certificate")),
            ("", "exec: {apiVersion: v1, command: sh}", Some("exec")),
            (
                "",
                "auth-provider: {name: oidc, config: {}}",
                Some("auth-provider"),
            ),
            ("", "token: t, as: system:admin", Some("as")),
        ] {
            let kubeconfig = Kubeconfig::from_yaml(&text(cluster, user)).unwrap();
            let got = judge(&kubeconfig, None, CredentialSources::Inline);
            let want = want.map(|field| {
                format!("kubeconfig: {field} is not allowed here; the credential must stand in the kubeconfig itself")
            });
            assert_eq!(got.err().map(|it| it.to_string()), want, "{cluster} {user}");
            assert!(judge(&kubeconfig, None, CredentialSources::Anywhere).is_ok());
        }
    }

    /// Fuzzing ran into its limit of time: each line of aliases multiplies the one before by nine.
    #[test]
    fn a_kubeconfig_whose_aliases_multiply_is_refused() {
        let line = |n: i32| {
            let aliases = vec![format!("*a{}", n - 1); 9].join(",");
            format!("a{n}: &a{n} [{aliases}]")
        };
        let lines: Vec<_> = (1..9).map(line).collect();
        let bomb = format!("a0: &a0 [x,x,x,x,x,x,x,x,x]\n{}\n", lines.join("\n"));
        let nested: Vec<_> = (0..50).map(|n| format!("&a{n} [")).collect();
        let nested = nested.concat();
        for (name, text) in [
            ("aliases of aliases", bomb),
            (
                "anchors in anchors",
                format!("a: {nested}{}", "x,".repeat(20_000)),
            ),
        ] {
            let error = parse(&text).expect_err(name);
            let KubeconfigError::Parse(cause) = error else {
                unreachable!("{name}: {error}");
            };
            let cause = cause.to_string();
            assert!(
                cause.contains("lias") || cause.contains("nchor"),
                "{name}: {cause}"
            );
        }
    }

    #[test]
    fn what_a_kubeconfig_says_twice_may_be_an_alias() {
        let text = "clusters:\n- {name: a, cluster: {server: 'https://a', certificate-authority-data: &ca YQ==}}\n- {name: b, cluster: {server: 'https://b', certificate-authority-data: *ca}}\n---\ncurrent-context: c\n";
        let kubeconfig = parse(text).unwrap();
        assert_eq!(kubeconfig.clusters.len(), 2);
        assert_eq!(kubeconfig.current_context.as_deref(), Some("c"));
    }

    /// The error goes into the log and into the spoke's status.
    #[test]
    fn what_is_no_kubeconfig_is_not_shown() {
        let text = "users:\n- name: u\n  user: {token: hunter2\n";
        let error = parse(text).expect_err("it is cut");
        let mut cause: Option<&dyn std::error::Error> = Some(&error);
        while let Some(error) = cause {
            assert!(!error.to_string().contains("hunter2"), "{error}");
            cause = error.source();
        }
    }
}
