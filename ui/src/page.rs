//! Which path below `/ui` is for what.

use crate::assets::{self, Asset};

/// What a path below `/ui` is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Page<'a> {
    /// `/ui`, which is `/ui/`.
    Moved,
    /// A file.
    File(&'static Asset),
    /// `/ui/api/instances`: instances of all clusters, searched, sorted and paged.
    Instances,
    /// `/ui/api/drawing/<cluster>/<definition>`: the graph of a definition, laid out.
    Drawing {
        /// The logical cluster that has the definition.
        cluster: &'a str,
        /// Its name.
        definition: &'a str,
    },
    /// `/ui/api/sign-in`: how people sign in at an issuer.
    SignIn,
    /// Any other path below `/ui/`.
    Nothing,
}

// === impl Page ===

impl<'a> Page<'a> {
    /// Returns what a path is for, as it stands in the request; `None` for paths that are not below `/ui`.
    pub fn of(path: &'a str) -> Option<Self> {
        let below = path.strip_prefix("/ui")?;
        if below.is_empty() {
            return Some(Self::Moved);
        }
        let below = below.strip_prefix('/')?;
        let Some(call) = below.strip_prefix("api/") else {
            return Some(assets::find(below).map_or(Self::Nothing, Self::File));
        };
        match call {
            "instances" => return Some(Self::Instances),
            "sign-in" => return Some(Self::SignIn),
            _ => {}
        }
        let drawing = call
            .strip_prefix("drawing/")
            .and_then(|rest| rest.split_once('/'));
        Some(match drawing {
            Some((cluster, definition)) if is_name(cluster) && is_name(definition) => {
                Self::Drawing {
                    cluster,
                    definition,
                }
            }
            _ => Self::Nothing,
        })
    }
}

/// Whether a text is a DNS subdomain: one segment of a path, without escapes and dots that climb.
pub(crate) fn is_name(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_file_a_call_or_nothing() {
        for path in ["/", "/uix", "/apis", "/clusters/ui/", "/UI/"] {
            assert_eq!(Page::of(path), None, "{path}");
        }
        assert_eq!(Page::of("/ui"), Some(Page::Moved));
        for path in ["/ui/", "/ui/app.js", "/ui/vendor/lit-html.js"] {
            assert!(matches!(Page::of(path), Some(Page::File(_))), "{path}");
        }
        assert_eq!(Page::of("/ui/api/instances"), Some(Page::Instances));
        assert_eq!(Page::of("/ui/api/sign-in"), Some(Page::SignIn));
        assert_eq!(
            Page::of("/ui/api/drawing/root/webapp"),
            Some(Page::Drawing {
                cluster: "root",
                definition: "webapp"
            })
        );
    }

    #[test]
    fn no_path_below_it_climbs_or_is_unescaped() {
        for path in [
            "/ui/../Cargo.toml",
            "/ui/%2e%2e/Cargo.toml",
            "/ui//app.js",
            "/ui/app.js/",
            "/ui/manifest.json",
            "/ui/api/drawing/root/..",
            "/ui/api/drawing/root/a%2fb",
            "/ui/api/drawing/root/a/b",
            "/ui/api/drawing/*/a",
            "/ui/api/drawing//a",
            "/ui/api/drawing/root/a?x",
            "/ui/api/instances/",
        ] {
            assert_eq!(Page::of(path), Some(Page::Nothing), "{path}");
        }
    }
}
