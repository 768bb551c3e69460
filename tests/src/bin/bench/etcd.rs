//! As much of etcd's gRPC API as the benchmarks need, written by hand: guarded creates, plain writes and reads.
//!
//! Source: etcd `api/etcdserverpb/rpc.proto`; gRPC over HTTP/2 (`PROTOCOL-HTTP2.md`).

use std::io;

use bytes::Bytes;

use crate::wire::Connection;

const GRPC: &str = "application/grpc";
const TXN: &str = "/etcdserverpb.KV/Txn";
const RANGE: &str = "/etcdserverpb.KV/Range";

/// `Compare.target`: the revision of the last change.
const TARGET_MOD: u64 = 2;

/// Creates a key as kube-apiserver does: only if it is not there. Tells whether it was created.
pub(crate) async fn create(connection: &Connection, key: &[u8], value: &[u8]) -> io::Result<bool> {
    let mut compare = Vec::new();
    number(&mut compare, 2, TARGET_MOD);
    field(&mut compare, 3, key);
    // The revision 0, said aloud: it is one of several in a `oneof`.
    compare.extend([6 << 3, 0]);
    let mut transaction = Vec::new();
    field(&mut transaction, 1, &compare);
    field(&mut transaction, 2, &put(key, value));
    let answer = call(connection, TXN, &transaction).await?;
    Ok(find(&answer, 2).is_some())
}

/// Writes many keys at once.
pub(crate) async fn put_all(
    connection: &Connection,
    pairs: &[(Vec<u8>, Vec<u8>)],
) -> io::Result<()> {
    let mut transaction = Vec::new();
    for (key, value) in pairs {
        field(&mut transaction, 2, &put(key, value));
    }
    call(connection, TXN, &transaction).await.map(drop)
}

/// Reads a key.
pub(crate) async fn get(connection: &Connection, key: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut range = Vec::new();
    field(&mut range, 1, key);
    let answer = call(connection, RANGE, &range).await?;
    let value = find(&answer, 2).and_then(|pair| find(pair, 5));
    Ok(value.map(<[u8]>::to_vec))
}

/// A `RequestOp` with a `PutRequest`.
fn put(key: &[u8], value: &[u8]) -> Vec<u8> {
    let mut request = Vec::new();
    field(&mut request, 1, key);
    field(&mut request, 2, value);
    let mut operation = Vec::new();
    field(&mut operation, 2, &request);
    operation
}

async fn call(connection: &Connection, path: &str, message: &[u8]) -> io::Result<Bytes> {
    let length = u32::try_from(message.len()).map_err(io::Error::other)?;
    let mut framed = Vec::with_capacity(message.len() + 5);
    framed.push(0);
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    let (code, mut answer) = connection.send("POST", path, GRPC, framed.into()).await?;
    // A refusal has no message, and its reason is in the trailers.
    if code != 200 || answer.len() < 5 {
        return Err(io::Error::other(format!("{path} was refused ({code})")));
    }
    Ok(answer.split_off(5))
}

// --- protobuf ---

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    out.push(value.to_le_bytes()[0]);
}

fn number(out: &mut Vec<u8>, tag: u64, value: u64) {
    varint(out, tag << 3);
    varint(out, value);
}

fn field(out: &mut Vec<u8>, tag: u64, bytes: &[u8]) {
    varint(out, (tag << 3) | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn read_varint(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = input.split_first()?;
        *input = rest;
        value |= u64::from(first & 0x7f) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The first field of this number: its bytes, or nothing of a number that is not 0.
fn find(mut input: &[u8], wanted: u64) -> Option<&[u8]> {
    while !input.is_empty() {
        let tag = read_varint(&mut input)?;
        let value = match tag & 7 {
            0 => {
                let set = read_varint(&mut input)? != 0;
                set.then_some(&input[..0])
            }
            2 => {
                let length = usize::try_from(read_varint(&mut input)?).ok()?;
                let (value, rest) = input.split_at_checked(length)?;
                input = rest;
                Some(value)
            }
            _ => return None,
        };
        if tag >> 3 == wanted && value.is_some() {
            return value;
        }
    }
    None
}
