//! Requests and answers of HTTP as a gate passes them on.

use std::{
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    time::Duration,
};

use serde_json::{Value, json};

/// How often an answer that takes its time, as a watch does, is looked at for whether anybody still waits for it.
const PERIOD: Duration = Duration::from_millis(200);

/// The lines of a request's head, and its body.
pub(super) fn read(client: &TcpStream) -> io::Result<(Vec<String>, Vec<u8>)> {
    let mut reader = BufReader::new(client);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let length = head.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("content-length") { value.trim().parse().ok() } else { None }
    });
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body)?;
    Ok((head, body))
}

/// Passes an answer on as it comes, for as long as anybody waits for it.
pub(super) fn pass(mut server: &TcpStream, mut client: &TcpStream) -> io::Result<()> {
    server.set_read_timeout(Some(PERIOD))?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        match server.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => client.write_all(&buffer[..length])?,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) && !is_gone(client) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether a client has hung up.
pub(super) fn is_gone(client: &TcpStream) -> bool {
    let peek = || {
        client.set_nonblocking(true)?;
        let peeked = client.peek(&mut [0]);
        client.set_nonblocking(false)?;
        peeked
    };
    match peek() {
        Ok(length) => length == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

/// Ends a connection on both sides.
pub(super) fn hang_up(ends: &[TcpStream; 2]) {
    for end in ends {
        // The other side may have done so.
        let _ = end.shutdown(Shutdown::Both);
    }
}

/// Answers as the API server does when it refuses a request.
pub(super) fn refuse(client: &TcpStream, status: u16) -> io::Result<()> {
    let (body, reason) = refusal(status);
    answer(client, &format!("{status} {reason}"), &body.to_string())
}

/// Answers as the API server does when a watch begins with what it no longer has: the watch begins, and that is all it tells.
pub(super) fn expire(client: &TcpStream) -> io::Result<()> {
    let (status, _) = refusal(410);
    answer(client, "200 OK", &format!("{}\n", json!({"type": "ERROR", "object": status})))
}

/// What the API server says of a request that it refuses, and its word for it.
fn refusal(status: u16) -> (Value, &'static str) {
    let reason = match status {
        409 => "Conflict",
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the test", "reason": reason, "code": status,
    });
    (body, reason)
}

fn answer(mut client: &TcpStream, status: &str, body: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: application/json\r\nConnection: close\r\nRetry-After: 1");
    client.write_all(format!("{head}\r\nContent-Length: {}\r\n\r\n{body}", body.len()).as_bytes())
}
