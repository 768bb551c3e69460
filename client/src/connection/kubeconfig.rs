//! Where the credential of a kubeconfig comes from.
//!
//! Whoever may write the Secret of a spoke chooses its kubeconfig. One that names a program or a file would run the
//! program and read the file as the hub, so such a kubeconfig is for the command line alone.

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
}
