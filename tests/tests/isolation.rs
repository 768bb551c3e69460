//! No cluster decides for another: what a tenant, a hostile spoke or a stolen credential may do to a running hub, tried
//! over its sockets. Each trial carries its row of the catalogue, S01 to S32; `docs/trials.md` lists them.

mod isolation {
    pub(crate) use wheelhouse_tests::support;

    mod bounds;
    mod fixture;
    mod floods;
    mod two_tenants;
}
