//! A server in a thread of its own, so that neither a paused clock nor a busy test slows it down.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc as blocking;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::Request;
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::answer::Answer;

/// The largest request body that is read. A larger one is hung up on.
const REQUEST_BYTES_MAX: usize = 64 * 1024 * 1024;

/// One request, read whole.
pub(crate) struct Received {
    pub(crate) head: Parts,
    pub(crate) body: Bytes,
}

type Handler = Arc<dyn Fn(Received) -> Answer + Send + Sync>;

/// A listening server. Dropping it closes the port and every connection.
pub(crate) struct Server {
    address: SocketAddr,
    in_flight: Arc<InFlight>,
    orders: mpsc::UnboundedSender<Order>,
    thread: Option<JoinHandle<()>>,
}

enum Order {
    /// Refuse connections, and break those there are.
    Down(blocking::Sender<io::Result<()>>),
    /// Accept connections.
    Up(blocking::Sender<io::Result<()>>),
}

impl Server {
    /// Starts to listen on a free port.
    pub(crate) fn start(handler: impl Fn(Received) -> Answer + Send + Sync + 'static) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let in_flight = Arc::new(InFlight::default());
        let (orders, inbox) = mpsc::unbounded_channel();
        let (bound, address) = blocking::channel();
        let worker = Worker { handler: Arc::new(handler), in_flight: Arc::clone(&in_flight), inbox };
        let thread = std::thread::Builder::new()
            .name("testkit-http".to_owned())
            .spawn(move || runtime.block_on(worker.run(&bound)))?;
        let address = address.recv().map_err(io::Error::other)??;
        Ok(Self { address, in_flight, orders, thread: Some(thread) })
    }

    pub(crate) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The most requests that were in flight at once: read or being read, and not yet answered.
    pub(crate) fn max_in_flight(&self) -> usize {
        self.in_flight.most.load(Ordering::Relaxed)
    }

    pub(crate) fn down(&self) -> io::Result<()> {
        self.order(Order::Down)
    }

    pub(crate) fn up(&self) -> io::Result<()> {
        self.order(Order::Up)
    }

    fn order(&self, order: impl FnOnce(blocking::Sender<io::Result<()>>) -> Order) -> io::Result<()> {
        let (done, wait) = blocking::channel();
        self.orders.send(order(done)).map_err(io::Error::other)?;
        wait.recv().map_err(io::Error::other)?
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The thread ends when the last sender of orders is gone.
        self.orders = mpsc::unbounded_channel().0;
        if let Some(thread) = self.thread.take() {
            // A panic in there has been printed, and a destructor has nobody to tell.
            let _ = thread.join();
        }
    }
}

struct Worker {
    handler: Handler,
    in_flight: Arc<InFlight>,
    inbox: mpsc::UnboundedReceiver<Order>,
}

impl Worker {
    async fn run(mut self, bound: &blocking::Sender<io::Result<SocketAddr>>) {
        let opened = Port::reserve().and_then(|port| Ok((port.listen()?, port)));
        let (listener, port) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                let _ = bound.send(Err(error));
                return;
            }
        };
        let _ = bound.send(Ok(port.address));
        let mut listener = Some(listener);
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                order = self.inbox.recv() => match order {
                    None => return,
                    Some(Order::Down(done)) => {
                        listener = None;
                        connections.shutdown().await;
                        let _ = done.send(Ok(()));
                    }
                    Some(Order::Up(done)) => {
                        let opened = if listener.is_some() { Ok(()) } else {
                            port.listen().map(|opened| listener = Some(opened))
                        };
                        let _ = done.send(opened);
                    }
                },
                stream = accept(listener.as_ref()) => {
                    connections.spawn(serve(stream, Arc::clone(&self.handler), Arc::clone(&self.in_flight)));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }
}

async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else {
        return std::future::pending().await;
    };
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            // Out of descriptors, or the client is gone already: a moment later it may be better.
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    }
}

/// A port that stays ours while nobody listens on it, so that refusals come from this server.
struct Port {
    address: SocketAddr,
    _reserved: TcpSocket,
}

impl Port {
    fn reserve() -> io::Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
        Ok(Self { address: socket.local_addr()?, _reserved: socket })
    }

    fn listen(&self) -> io::Result<TcpListener> {
        let socket = TcpSocket::new_v4()?;
        socket.set_reuseaddr(true)?;
        socket.bind(self.address)?;
        socket.listen(4096)
    }
}

async fn serve(stream: TcpStream, handler: Handler, in_flight: Arc<InFlight>) {
    // Without it small answers may wait for an acknowledgement; a server that cannot set it works.
    let _ = stream.set_nodelay(true);
    let service = service_fn(|request: Request<Incoming>| {
        let handler = Arc::clone(&handler);
        let flight = Flight::start(&in_flight);
        async move { handler(receive(request).await?).play(flight).await }
    });
    // Fails when a client hangs up or an answer asks for it; both are normal here.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn receive(request: Request<Incoming>) -> io::Result<Received> {
    let (head, body) = request.into_parts();
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await.map_err(io::Error::other)?.to_bytes();
    Ok(Received { head, body })
}

#[derive(Default)]
struct InFlight {
    now: AtomicUsize,
    most: AtomicUsize,
}

/// Counts one request as in flight until its answer is sent or given up.
pub(super) struct Flight(Arc<InFlight>);

impl Flight {
    fn start(counts: &Arc<InFlight>) -> Self {
        let now = counts.now.fetch_add(1, Ordering::Relaxed) + 1;
        counts.most.fetch_max(now, Ordering::Relaxed);
        Self(Arc::clone(counts))
    }
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::Relaxed);
    }
}
