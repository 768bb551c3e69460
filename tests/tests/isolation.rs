//! No cluster decides for another: what a tenant, a hostile spoke or a stolen credential may do to a running hub, tried
//! over its sockets. Each trial is named after its row of `docs/trials.md`, S01 to S34.

mod isolation {
    pub(crate) use wheelhouse_tests::support;

    mod admission;
    mod archives;
    mod audit;
    mod audited;
    mod bounds;
    mod built_in_kinds;
    mod clusters;
    mod conversion;
    mod costs;
    mod credentials;
    mod deputy;
    mod fixture;
    mod fleet_view;
    mod floods;
    mod found;
    mod front_proxy;
    mod host;
    mod hostile_spoke;
    mod issuers;
    mod joined;
    mod kubeconfigs;
    mod mask;
    mod mutations;
    mod preview;
    mod profiles;
    mod random_requests;
    mod rbac;
    mod real_issuer;
    mod relay;
    mod revocation;
    mod secrets;
    mod serving;
    mod side_channels;
    mod smuggling;
    mod spending;
    mod streams;
    mod succession;
    mod two_tenants;
    mod vouched;
}
