//! No cluster decides for another: what a tenant, a hostile spoke or a hostile value cannot reach.

mod isolation {
    mod deputy;
}
