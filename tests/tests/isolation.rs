//! No cluster decides for another: what a tenant, a hostile spoke or a stolen credential may do to a running hub, tried
//! over its sockets. Each trial carries its row of the catalogue, S01 to S32; `docs/trials.md` lists them.

mod isolation {
    pub(crate) use wheelhouse_tests::support;

    mod archives;
    mod audit;
    mod bounds;
    mod clusters;
    mod credentials;
    mod deputy;
    mod fixture;
    mod floods;
    mod hostile_spoke;
    mod joined;
    mod rbac;
    mod relay;
    mod revocation;
    mod secrets;
    mod side_channels;
    mod smuggling;
    mod two_tenants;
}
