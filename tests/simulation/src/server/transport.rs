//! The transport between client and server: requests, responses and faults.

use std::{future::pending, io, pin::Pin, sync::Arc};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use http::{HeaderValue, Request, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt as _, Full, StreamBody};
use kaudit::cluster::client::{ClientService, READ_TIMEOUT, Transport};
use kube::client::{Body, DynBody};
use tokio::{
    spawn,
    time::{sleep, timeout},
};
use tower::{BoxError, service_fn, util::BoxService};

use super::{
    ApiServer,
    faults::{Faults, RequestFault},
    handlers::{Reply, ReplyBody},
    request::RequestInfo,
    status::ErrorStatus,
};

type Lines = Pin<Box<dyn Stream<Item = io::Result<Bytes>> + Send>>;

impl ApiServer {
    /// Returns the transport of a client in `namespace` with the rights of `user`; `faults` determines the faults of
    /// its requests.
    pub fn transport(&self, namespace: &str, user: &str, faults: Arc<dyn Faults>) -> Transport {
        let (server, user) = (self.clone(), user.to_owned());
        Transport::new(namespace, move || server.service(&user, &faults))
    }

    /// Returns a service that sends requests of a user to the server.
    pub fn service(&self, user: &str, faults: &Arc<dyn Faults>) -> ClientService {
        let (server, user, faults) = (self.clone(), user.to_owned(), Arc::clone(faults));
        BoxService::new(service_fn(move |request: Request<Body>| {
            let (server, info) = (server.clone(), RequestInfo::read(&user, &request));
            let faults = Arc::clone(&faults);
            async move {
                let body = request.into_body().collect_bytes().await?;
                let answer = timeout(READ_TIMEOUT, server.call(info, body, faults)).await;
                answer.unwrap_or_else(|_| Err(silence().into()))
            }
        }))
    }

    async fn call(
        &self,
        request: RequestInfo,
        body: Bytes,
        faults: Arc<dyn Faults>,
    ) -> Result<Response<Box<DynBody>>, BoxError> {
        let fault = faults.decide(&request);
        let missing = faults.missing_groups(&request);
        let (server, carried_out) = (self.clone(), request.clone());
        let carry_out = move || {
            let reply = server.with_changes(|state| state.handle(&carried_out, &body, &missing));
            server.note(&carried_out, reply.code, true);
            reply
        };
        let reply = match fault {
            // The server receives a delayed request even if the client has stopped waiting.
            RequestFault::Delay(time) => {
                let arriving = spawn(async move {
                    sleep(time).await;
                    carry_out()
                });
                arriving.await?
            }
            RequestFault::Refuse(code, after) => {
                self.note(&request, code, false);
                return respond(Reply::from(ErrorStatus::unavailable(code, after)), &fault, None);
            }
            RequestFault::ConnectError => {
                self.note(&request, 0, false);
                return Err(io::Error::new(io::ErrorKind::ConnectionRefused, "connection refused").into());
            }
            RequestFault::Hang => {
                self.note(&request, 0, false);
                return pending().await;
            }
            _ => carry_out(),
        };
        match fault {
            RequestFault::DelayAnswer(time) => sleep(time).await,
            RequestFault::LoseAnswer => {
                return Err(io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by peer").into());
            }
            RequestFault::HangAnswer => return pending().await,
            _ => {}
        }
        if let Some(wait) = reply.wait {
            sleep(wait).await;
        }
        respond(reply, &fault, Some((self.clone(), faults)))
    }
}

/// Returns the error for a connection that was silent for too long.
fn silence() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "timed out reading")
}

/// Fails a body that is silent for too long.
fn until_silence(lines: Lines) -> Lines {
    Box::pin(stream::unfold(Some(lines), |lines| async {
        let mut lines = lines?;
        match timeout(READ_TIMEOUT, lines.next()).await {
            Ok(line) => Some((line?, Some(lines))),
            Err(_) => Some((Err(silence()), None)),
        }
    }))
}

/// Builds the response for a client.
fn respond(
    reply: Reply,
    fault: &RequestFault,
    watching: Option<(ApiServer, Arc<dyn Faults>)>,
) -> Result<Response<Box<DynBody>>, BoxError> {
    let mut response = Response::builder().status(reply.code).header(header::CONTENT_TYPE, reply.content_type);
    if let Some(seconds) = reply.retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    if let Some(etag) = &reply.etag {
        response = response.header(header::ETAG, HeaderValue::from_str(etag)?);
    }
    let lines: Lines = match (reply.content, watching) {
        (ReplyBody::Whole(bytes), _) => match fault {
            RequestFault::CutBody(_) | RequestFault::Truncate(_) | RequestFault::Stall(_) => {
                Box::pin(stream::iter([Ok(bytes)]))
            }
            _ => return Ok(response.body(Box::new(Full::new(bytes).map_err(BoxError::from)) as Box<DynBody>)?),
        },
        (ReplyBody::Watch(watch), Some((server, faults))) => Box::pin(watch.stream(server, faults)),
        (ReplyBody::Watch(_), None) => Box::pin(stream::empty()),
    };
    let lines: Lines = match *fault {
        RequestFault::CutBody(bytes) => {
            let broken = io::Error::new(io::ErrorKind::UnexpectedEof, "unexpected EOF during chunk size line");
            Box::pin(first(lines, bytes).chain(stream::iter([Err(broken)])))
        }
        RequestFault::Truncate(bytes) => Box::pin(first(lines, bytes)),
        RequestFault::Stall(bytes) => Box::pin(first(lines, bytes).chain(stream::pending())),
        _ => lines,
    };
    let body = StreamBody::new(until_silence(lines).map(|line| line.map(Frame::data).map_err(BoxError::from)));
    Ok(response.body(Box::new(body) as Box<DynBody>)?)
}

/// Returns the first bytes of a body.
fn first(lines: Lines, bytes: usize) -> Lines {
    Box::pin(lines.scan(bytes, |left, line| {
        let line = line.map(|line| line.slice(..line.len().min(*left)));
        let length = line.as_ref().map_or(0, Bytes::len);
        *left -= length;
        std::future::ready((length > 0 || line.is_err()).then_some(line))
    }))
}
