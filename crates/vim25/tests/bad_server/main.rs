//! Servers that are no good vCenter: every answer of theirs ends in a typed error that says what to look at, in bounded
//! time and memory.

mod answers;
mod certificates;
mod collector;
mod limits;
mod server;
mod session;
mod trust;
mod vcenter;

use std::time::Duration;

use server::Server;
use vim25::{Client, Credentials, Error, Result, Settings, Timestamp, methods::CurrentTime, refs::ServiceInstanceRef};

/// The password of every client here. No error may show it.
const PASSWORD: &str = "hunter2-and-more";

/// A client of the server, by plain HTTP.
fn client(server: &Server, settings: Settings) -> Client {
    client_at(&format!("http://{}", server.address), settings)
}

fn client_at(address: &str, settings: Settings) -> Client {
    Client::new(address.parse().unwrap(), Credentials::password("jane", PASSWORD), settings).unwrap()
}

/// Settings that fit a test: nothing here depends on the authorities of the machine.
fn settings() -> Settings {
    Settings { trust: vim25::Trust::Insecure, request_timeout: Duration::from_secs(20), ..Settings::default() }
}

/// The simplest call there is.
async fn time(client: &Client) -> Result<Timestamp> {
    client.call(&CurrentTime { this: ServiceInstanceRef::new("ServiceInstance") }).await
}

/// The error of the simplest call. It does not show the password.
async fn failure(client: &Client) -> Error {
    let error = time(client).await.expect_err("the server is a bad one");
    let shown = format!("{error} {error:?} {client:?}");
    assert!(!shown.contains(PASSWORD), "{shown}");
    error
}

/// What kept a login from succeeding, or the error itself where there was one already.
fn beneath(error: &Error) -> &Error {
    if let Error::Login { source, .. } = error { source } else { error }
}
