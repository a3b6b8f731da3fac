//! Connections, made within a time.

use std::{
    error::Error,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use http::Uri;
use tower_service::Service;

type BoxError = Box<dyn Error + Send + Sync>;

/// A connector with a limit on all of its work. That of the TCP connector ends before TLS begins, so that a server that
/// takes connections and says nothing would hold up a long poll for as long as the poll may last.
#[derive(Clone, Debug)]
pub(super) struct Within<C> {
    pub limit: Duration,
    pub connector: C,
}

impl<C> Service<Uri> for Within<C>
where
    C: Service<Uri, Error = BoxError>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (limit, connecting) = (self.limit, self.connector.call(uri));
        Box::pin(async move {
            let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("no connection within {limit:?}"));
            tokio::time::timeout(limit, connecting).await.map_err(late)?
        })
    }
}
