//! Where the credential of a kubeconfig comes from.
//!
//! Whoever may write the Secret of a spoke chooses its kubeconfig. One that names a program or a file would run the
//! program and read the file as the hub, so such a kubeconfig is for the command line alone. Nor may its text cost more
//! than it is long: aliases of aliases make seconds of work of four hundred bytes.

use dialect::{
    error_chain,
    yaml::{self, Aliases},
};
use kube::config::{AuthInfo, Cluster, Context, Kubeconfig};

use crate::error::Error;

/// Where a credential may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CredentialSources {
    /// From the text of the kubeconfig alone.
    Inline,
    /// Also from programs and files that it names; for a kubeconfig of the user's own.
    Anywhere,
}

/// Reads a kubeconfig, of several documents where there are such. The error shows nothing of the text, which holds a
/// credential.
///
/// Source: `kube::config::Kubeconfig::from_yaml`.
pub(super) fn parse(text: &str) -> Result<Kubeconfig, Error> {
    let unreadable = |error: yaml::YamlError| Error::Config(format!("it is not YAML: {error}"));
    let documents = yaml::documents(text, Aliases::Few).map_err(unreadable)?;
    let mut whole = Kubeconfig::default();
    for document in documents {
        // What serde says of a value shows it.
        let config = serde_json::from_value(document).map_err(|_unsaid| misfit())?;
        whole = whole
            .merge(config)
            .map_err(|error| Error::Config(error_chain(&error)))?;
    }
    Ok(whole)
}

fn misfit() -> Error {
    Error::Config(
        "a field of it has not the type that it has in a kubeconfig: names and tokens that look like numbers need quotes"
            .to_owned(),
    )
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
        for (text, want) in [
            ("users:\n- name: u\n  user: {token: hunter2\n", "not YAML"),
            ("users: {hunter2: 1}\n", "type"),
            ("users:\n- name: u\n  user: {token: 4711}\n", "quotes"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(want), "{error}");
            assert!(
                !error.contains("hunter2") && !error.contains("4711"),
                "{error}"
            );
        }
    }
}
