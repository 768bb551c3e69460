//! Instances that are made in a spoke itself, by people or tools who know nothing of the hub.

use std::{sync::Arc, time::Duration};

use api::kro;
use client::Endpoint;

use super::{World, script::Place, verdict};
use crate::{
    definition::{NAMESPACE, Wish},
    fleet::{self, Failure},
    spoke::{Key, Spoke, Writer},
};

impl World {
    /// Makes or changes an instance in its spoke.
    pub(super) async fn put_in_spoke(&mut self, place: Place, wish: Wish) -> Result<(), Failure> {
        let (cluster, definition, name) = &place;
        let (Some(definition), Some((spoke, key))) =
            (self.definitions.get(definition), self.object_of(&place))
        else {
            return Ok(());
        };
        let is_known = self.instances.contains_key(&place);
        let object = definition.instance(name, &wish);
        let endpoint = fleet::instances(definition, cluster)?;
        if !is_known {
            self.await_gone(&endpoint, name, &place).await?;
            if !spoke.serves(&key) {
                return self.put(place, wish).await; // nobody in the spoke can make it yet
            }
        }
        let object = match spoke.get(&key) {
            Some(live) => {
                let mut changed = (*live).clone();
                changed["spec"] = object["spec"].clone();
                changed
            }
            None if is_known => return Ok(()),
            None => object,
        };
        spoke.put(key, object, Writer::Foreign);
        self.imported.insert(place.clone());
        self.instances.insert(place, wish);
        Ok(())
    }

    /// Deletes an instance in its spoke, half of the time, and always while the hub does not have it. Returns whether it did.
    pub(super) async fn delete_in_spoke(&self, place: &Place) -> Result<bool, Failure> {
        let (cluster, definition, name) = place;
        let (Some(definition), Some((spoke, key))) =
            (self.definitions.get(definition), self.object_of(place))
        else {
            return Ok(false);
        };
        let endpoint = fleet::instances(definition, cluster)?;
        if self.fleet.dice.chance(500) && self.fleet.read(&endpoint, name).await?.is_some() {
            return Ok(false);
        }
        spoke.ask_to_go(&key, Writer::Foreign);
        Ok(true)
    }

    /// Waits until the hub has an instance that was made in a spoke.
    pub(super) async fn await_import(
        &mut self,
        endpoint: &Endpoint,
        name: &str,
    ) -> Result<(), Failure> {
        for _ in 0..verdict::PATIENCE_SECONDS {
            if self.fleet.read(endpoint, name).await?.is_some() {
                return Ok(());
            }
            self.rest(Duration::from_secs(1)).await?;
        }
        Err(format!("converges: {name} is not taken up in time"))
    }

    /// Returns whether the spoke has an object of an instance's name.
    pub(super) fn is_in_spoke(&self, place: &Place) -> bool {
        let object = self.object_of(place);
        object.is_some_and(|(spoke, key)| spoke.get(&key).is_some())
    }

    fn object_of(&self, (cluster, definition, name): &Place) -> Option<(Arc<Spoke>, Key)> {
        let definition = self.definitions.get(definition)?;
        let spoke = self.fleet.spokes.get(cluster)?;
        let key = Key::new(kro::GROUP, &definition.resource(), NAMESPACE, name);
        Some((Arc::clone(spoke), key))
    }
}
