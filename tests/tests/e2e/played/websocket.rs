//! Watches over WebSocket, of both.

use serde_json::{Value, json};
use wheelhouse_tests::{
    pki::Pair,
    support::User,
    wire::{Address, Wire},
};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WATCH: &str =
    "/api/v1/namespaces/default/configmaps?watch=true&fieldSelector=metadata.name%3Dws";
/// The example of RFC 6455 section 1.3.
const KEY: &str = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
const ORIGIN: &str = "Origin: http://localhost\r\n";
const VERSION: &str = "Sec-WebSocket-Version: 13\r\n";

/// Plays handshakes, good and bad, and a watch in text and in bytes.
pub(super) async fn watches_over_websocket_are_alike(
    (hub, spoke): (&User, &User),
    (of_hub, of_spoke): &(String, String),
    embedded: &str,
) {
    let prefix = format!("/clusters/{embedded}");
    let map = json!({"metadata": {"name": "ws"}, "data": {"a": "b"}});
    hub.post(&format!("{prefix}{MAPS}"), &map).await.must(201);
    spoke.post(MAPS, &map).await.must(201);
    let whole = format!("{KEY}{ORIGIN}{VERSION}");
    for (headers, accept) in [
        (whole.clone(), "application/json"),
        (
            format!("{whole}Sec-WebSocket-Protocol: base64.binary.k8s.io\r\n"),
            "application/json",
        ),
        (whole.clone(), "application/vnd.kubernetes.protobuf"),
    ] {
        let (ours, peers) = tokio::join!(
            watched(of_hub, &prefix, &headers, accept),
            watched(of_spoke, "", &headers, accept)
        );
        assert_eq!(ours, peers, "{headers} {accept}");
        assert!(ours[0].contains(" 101 ") && ours.len() > 6, "{ours:?}");
    }
    for headers in [
        format!("{KEY}{VERSION}"),
        format!("{ORIGIN}{VERSION}"),
        format!("{KEY}{ORIGIN}"),
        format!("{whole}Sec-WebSocket-Protocol: a, b\r\n"),
    ] {
        let (ours, peers) = tokio::join!(
            refused(of_hub, &prefix, &headers),
            refused(of_spoke, "", &headers)
        );
        assert_eq!(ours, peers, "{headers}");
    }
}

async fn asked(kubeconfig: &str, prefix: &str, headers: &str, accept: &str) -> Wire {
    let (address, pair) = (
        Address::of_kubeconfig(kubeconfig),
        Pair::of_kubeconfig(kubeconfig),
    );
    let mut wire = Wire::connect(&address, &["http/1.1"], Some(&pair)).await;
    let host = &address.host;
    let request = format!(
        "GET {prefix}{WATCH} HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Accept: {accept}\r\n{headers}\r\n"
    );
    wire.write(request).await;
    wire
}

/// The first line of a refusal.
async fn refused(kubeconfig: &str, prefix: &str, headers: &str) -> String {
    let mut wire = asked(kubeconfig, prefix, headers, "application/json").await;
    let answer = wire.read_until("\r\n").await;
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Watches until the first event, asks whether the server is there, and closes. Returns the handshake and every frame.
async fn watched(kubeconfig: &str, prefix: &str, headers: &str, accept: &str) -> Vec<String> {
    let mut wire = asked(kubeconfig, prefix, headers, accept).await;
    wire.read_bytes_until(b"ADDED").await;
    // A message of the client, which nobody reads, and a ping.
    wire.write([0x81, 0x82, 0, 0, 0, 0, b'h', b'i']).await;
    wire.write([0x89, 0x84, 0, 0, 0, 0, b'p', b'i', b'n', b'g'])
        .await;
    wire.read_bytes_until(b"ping").await;
    wire.write([0x88, 0x82, 0, 0, 0, 0, 3, 0xe8]).await;
    let received = wire.read_to_end().await;
    let end = received.windows(4).position(|it| it == b"\r\n\r\n");
    let (head, frames) = received.split_at(end.expect("the head has an end") + 4);
    let mut told = head_of(head);
    told.extend(frames_of(frames));
    told
}

/// The first line and what is of WebSocket.
fn head_of(head: &[u8]) -> Vec<String> {
    let head = String::from_utf8_lossy(head).into_owned();
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default().to_owned();
    let names = [
        "upgrade",
        "connection",
        "sec-websocket-accept",
        "sec-websocket-protocol",
    ];
    let mut kept: Vec<String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim()))
        .filter(|(name, _)| names.contains(&name.as_str()))
        .map(|(name, value)| format!("{name}: {value}"))
        .collect();
    kept.sort();
    kept.insert(0, first);
    kept
}

/// Each frame by its first byte and what it says.
fn frames_of(mut bytes: &[u8]) -> Vec<String> {
    let mut frames = Vec::new();
    while let [first, length, rest @ ..] = bytes {
        let (length, rest) = match (*length, rest) {
            (126, [a, b, rest @ ..]) => (usize::from(u16::from_be_bytes([*a, *b])), rest),
            (length, rest) => (usize::from(length), rest),
        };
        let (payload, behind) = rest.split_at(length);
        let said = match serde_json::from_slice::<Value>(payload) {
            Ok(event) => {
                let name = &event["object"]["metadata"]["name"];
                let line = if payload.ends_with(b"\n") {
                    "a line"
                } else {
                    "no line"
                };
                format!("{} {name} in {line}", event["type"])
            }
            // A message begins with its type: that of an event, or none.
            Err(_) => format!("{:?}", payload.get(..payload.len().min(7))),
        };
        frames.push(format!("{first:#x} {said}"));
        bytes = behind;
    }
    frames
}
