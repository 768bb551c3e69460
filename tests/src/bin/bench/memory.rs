//! B12: what an object takes: resident memory and disk.

use super::sides;
use crate::{
    Asked,
    measure::{Series, disk, float, rss},
    report::{Better, Report, say},
    side::{PATH, Server, bodies},
};

const WIDTH: usize = 64;

/// Measures both sides once, unless more rounds are asked for.
pub(crate) async fn run(asked: &Asked, report: &mut Report) {
    let count = asked.count.unwrap_or(100_000);
    let mut found = [(); 2].map(|()| (Series::default(), Series::default()));
    for _ in 0..asked.rounds.unwrap_or(1) {
        for ((memory, space), ours) in found.iter_mut().zip(sides(asked)) {
            let server = Server::start(*ours).await;
            let wire = server.wire(4).await;
            let processes = server.processes();
            let before = (rss(&processes), disk(&server.data()));
            wire.create(PATH, bodies("w", count), WIDTH).await;
            let after = (rss(&processes), disk(&server.data()));
            let each =
                |before: u64, after: u64| float(after.saturating_sub(before)) / float(count as u64);
            memory.push(each(before.0, after.0));
            space.push(each(before.1, after.1));
            say(&format!(
                "B12 {}: {:.0} bytes of RSS, {:.0} of disk for each of {count}",
                server.name(),
                each(before.0, after.0),
                each(before.1, after.1)
            ));
        }
    }
    let [ours, peer] = found;
    let what = "B12 RSS of an object of 1.2 KB";
    report.row(what, "bytes", ours.0, peer.0, Better::Less);
    report.wanted(2200.0);
    let what = "B12 disk of an object of 1.2 KB";
    report.row(what, "bytes", ours.1, peer.1, Better::Less);
    report.wanted(2200.0);
    report.note(format!(
        "B12: {count} objects, created once; what the servers had before is taken off."
    ));
}
