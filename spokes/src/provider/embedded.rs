//! Clusters that this hub serves itself: there is nothing to find, and nothing to follow.

use std::future::ready;

use api::{LogicalCluster, wheelhouse::Spoke};
use futures::future::BoxFuture;
use tasks::Tasks;

use super::{Answer, Concerned, Provider};
use crate::access::Access;

/// The provider of embedded clusters.
pub(super) struct EmbeddedClusters;

impl Provider for EmbeddedClusters {
    fn start(&self, _concerned: Concerned, _tasks: &Tasks) {}

    fn access<'a>(
        &'a self,
        _spoke: &'a LogicalCluster,
        _object: &'a Spoke,
    ) -> BoxFuture<'a, Answer> {
        Box::pin(ready(Ok(Ok(Access::Embedded))))
    }
}
