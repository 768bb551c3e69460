//! What of an object a request addresses: the object, or one of its subresources.

/// What of an object is addressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// The object.
    Main,
    /// `status`.
    Status,
    /// `scale`.
    Scale,
    /// `finalize` of a namespace.
    Finalize,
    /// `binding` of a pod.
    Binding,
    /// `eviction` of a pod.
    Eviction,
    /// `approval` of a certificate signing request.
    Approval,
    /// `ephemeralcontainers` or `resize` of a pod: parts of its spec.
    PodPart,
    /// `exec`, `attach`, `portforward`, `log` or `proxy` of a pod: what a kubelet or a container answers.
    Running,
    /// `proxy` of a service: what one of its pods answers.
    Balanced,
}

// === impl Endpoint ===

impl Endpoint {
    /// The name in the path and in managed fields.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Main => "",
            Self::Status => "status",
            Self::Scale => "scale",
            Self::Finalize => "finalize",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
            Self::Approval => "approval",
            Self::PodPart => "ephemeralcontainers",
            Self::Running => "exec",
            Self::Balanced => "proxy",
        }
    }
}
