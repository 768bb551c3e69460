//! The handshake, and frames however they are cut.

use http::Request;

use super::frame::{self, CloseCode, Heard, Opcode, Reader, Violation};
use super::*;

fn parts(headers: &[(&str, &str)]) -> Parts {
    let mut request = Request::get("/api/v1/pods?watch=true").version(Version::HTTP_11);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).expect("a request").into_parts().0
}

const ASKED: [(&str, &str); 5] = [
    ("connection", "keep-alive, Upgrade"),
    ("upgrade", "WebSocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("origin", "http://localhost"),
];

#[test]
fn a_handshake_is_answered_as_the_standard_has_it() {
    let asked = parts(&ASKED);
    assert!(is_asked_for(asked.version, &asked.headers));
    assert!(!is_asked_for(Version::HTTP_2, &asked.headers));
    assert!(!is_asked_for(asked.version, &parts(&ASKED[1..]).headers));
    let answer = accept(&asked).expect("it is accepted");
    // The example of RFC 6455 section 1.3.
    let told = answer.get("sec-websocket-accept");
    assert_eq!(told.expect("it is told"), "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    assert!(!answer.contains_key("sec-websocket-protocol"));
}

#[test]
fn what_is_no_handshake_is_refused() {
    for (name, dropped, added, want) in [
        ("no key", "sec-websocket-key", None, Some(400)),
        ("no version", "sec-websocket-version", None, Some(400)),
        ("no origin", "origin", None, Some(403)),
        (
            "an old version",
            "sec-websocket-version",
            Some(("sec-websocket-version", "8")),
            Some(400),
        ),
        (
            "one subprotocol",
            "",
            Some(("sec-websocket-protocol", "base64.binary.k8s.io")),
            None,
        ),
        (
            "two subprotocols",
            "",
            Some(("sec-websocket-protocol", "a, b")),
            Some(400),
        ),
    ] {
        let mut headers: Vec<_> = ASKED.into_iter().filter(|it| it.0 != dropped).collect();
        headers.extend(added);
        let code = accept(&parts(&headers)).err();
        let code = code.and_then(|refusal| refusal.status().map(|status| status.code));
        assert_eq!(code, want, "{name}");
    }
}

#[test]
fn a_token_among_subprotocols_is_found() {
    for (offered, want) in [
        ("a", Ok(None)),
        (
            "base64url.bearer.authorization.k8s.io.c2VjcmV0, a",
            Ok(Some("secret")),
        ),
        (
            "base64url.bearer.authorization.k8s.io.c2VjcmV0",
            Err(MalformedToken),
        ),
        (
            "base64url.bearer.authorization.k8s.io.c2VjcmV0, base64url.bearer.authorization.k8s.io.YQ, a",
            Err(MalformedToken),
        ),
        (
            "base64url.bearer.authorization.k8s.io.?, a",
            Err(MalformedToken),
        ),
        (
            "base64url.bearer.authorization.k8s.io._w, a",
            Err(MalformedToken),
        ),
    ] {
        let headers = parts(&[("sec-websocket-protocol", offered)]).headers;
        let found = bearer_token(&headers);
        assert_eq!(
            found.as_ref().map(Option::as_deref),
            want.as_ref().map(|it| *it),
            "{offered}"
        );
        if want.is_ok_and(|token| token.is_some()) {
            let mut asked = ASKED.to_vec();
            asked.push(("sec-websocket-protocol", offered));
            let answer = accept(&parts(&asked)).expect("it is accepted");
            let chosen = answer.get("sec-websocket-protocol");
            assert_eq!(chosen.expect("one is chosen"), "a", "the token stays here");
        }
    }
}

/// A frame of a client.
fn sent(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [1, 2, 3, 4];
    let mut frame = vec![first];
    match u16::try_from(payload.len()).expect("a short one") {
        short @ 0..=125 => frame.push(0x80 | u8::try_from(short).expect("it is short")),
        long => {
            frame.push(0x80 | 0x7e);
            frame.extend(long.to_be_bytes());
        }
    }
    frame.extend(MASK);
    let masked = payload.iter().zip(MASK.iter().cycle());
    frame.extend(masked.map(|(byte, mask)| byte ^ mask));
    frame
}

#[test]
fn frames_are_read_however_they_are_cut() {
    let mut bytes = sent(0x81, &[b'x'; 1000]);
    bytes.extend(sent(0x01, b"begun"));
    bytes.extend(sent(0x89, b"are you there"));
    bytes.extend(sent(0x80, b"ended"));
    bytes.extend(sent(0x8a, b"pong"));
    for step in [1, 2, 7, bytes.len()] {
        let mut reader = Reader::default();
        let mut pings = Vec::new();
        for piece in bytes.chunks(step) {
            let heard = reader.read(piece).expect("it is sound");
            assert!(!heard.closed);
            pings.extend(heard.ping);
        }
        assert_eq!(pings, [b"are you there".to_vec()], "in steps of {step}");
        let closed = reader.read(&sent(0x88, &1000_u16.to_be_bytes()));
        assert_eq!(closed.map(|heard| heard.closed), Ok(true));
    }
}

#[test]
fn what_no_client_may_send_ends_it() {
    let unmasked = vec![0x81, 1, b'x'];
    let mut endless = vec![0x82, 0xff];
    endless.extend([0xff; 8]);
    for (name, bytes) in [
        ("without a mask", unmasked),
        ("reserved bits", sent(0xc1, b"")),
        ("an unknown opcode", sent(0x83, b"")),
        ("a long ping", sent(0x89, &[0; 126])),
        ("a ping in parts", sent(0x09, b"")),
        ("a length of 64 bits", endless),
    ] {
        let read = Reader::default().read(&bytes);
        assert_eq!(read, Err(Violation), "{name}");
    }
    assert_eq!(Reader::default().read(&[0x81]), Ok(Heard::default()));
}

#[test]
fn lengths_are_written_in_the_shortest_form() {
    for (length, head) in [
        (125, vec![0x81, 125]),
        (126, vec![0x81, 126, 0, 126]),
        (65_535, vec![0x81, 126, 0xff, 0xff]),
        (65_536, vec![0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
    ] {
        let mut out = Vec::new();
        frame::write(&mut out, Opcode::Text, &vec![b'x'; length]);
        assert!(out.starts_with(&head), "{length}");
        assert_eq!(out.len(), head.len() + length);
    }
    let mut out = Vec::new();
    frame::write_close(&mut out, CloseCode::Normal);
    assert_eq!(out, [0x88, 2, 3, 0xe8]);
}
