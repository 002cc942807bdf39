//! The shop that misbehaves on purpose: a real HTTP service on loopback, and a port nobody serves.
//!
//! Each fault happens a fixed number of times, so that two rehearsals go the same way.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// The running shop. Dropping it closes it.
#[derive(Debug)]
pub(super) struct Service {
    address: SocketAddr,
    dead: SocketAddr,
    shop: Arc<Shop>,
    server: JoinHandle<()>,
}

/// What the shop remembers.
#[derive(Debug, Default)]
struct Shop {
    asked: Mutex<BTreeMap<String, u32>>,
    refunds: Mutex<BTreeSet<String>>,
}

impl Service {
    /// Opens the shop on a free port of the loopback interface.
    pub(super) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        // A port that was free a moment ago: connections to it are refused.
        let dead = TcpListener::bind(("127.0.0.1", 0)).await?.local_addr()?;
        let shop = Arc::new(Shop::default());
        let routes = Router::new()
            .route("/orders/{id}", get(order))
            .route("/stock/{sku}", get(stock))
            .route("/carriers/{name}/eta", get(eta))
            .route("/refunds", post(refund))
            .route("/loyalty/{customer}", get(loyalty))
            .with_state(Arc::clone(&shop));
        let server = tokio::spawn(async move {
            if let Err(error) = axum::serve(listener, routes).await {
                tracing::error!(%error, "the rehearsal's service ended");
            }
        });
        Ok(Self { address, dead, shop, server })
    }

    /// Where the shop is, as `host:port`.
    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }

    /// A port that refuses every connection.
    pub(super) const fn dead_address(&self) -> SocketAddr {
        self.dead
    }

    /// How many refunds were really made.
    pub(super) fn refunds(&self) -> usize {
        lock(&self.shop.refunds).len()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.server.abort();
    }
}

impl Shop {
    /// How often `what` was asked for, this time included.
    fn times(&self, what: String) -> u32 {
        let mut asked = lock(&self.asked);
        let times = asked.entry(what).or_default();
        *times += 1;
        *times
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// 429 with `Retry-After` at first; 404 for an order that does not exist.
async fn order(State(shop): State<Arc<Shop>>, Path(id): Path<String>) -> Response {
    if id != "ORD-2026-00042" {
        return (StatusCode::NOT_FOUND, Json(json!({ "message": "no such order" }))).into_response();
    }
    if shop.times(format!("order {id}")) == 1 {
        return (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, "1")]).into_response();
    }
    let skus: Vec<String> = (1..=8).map(|n| format!("SKU-{n}")).collect();
    Json(json!({ "id": id, "customer": "C-7", "carrier": "northwind", "cents": 4200, "skus": skus }))
        .into_response()
}

/// 503 once or twice for two of the eight.
async fn stock(State(shop): State<Arc<Shop>>, Path(sku): Path<String>) -> Response {
    let broken = match &*sku {
        "SKU-3" => 1,
        "SKU-6" => 2,
        _ => 0,
    };
    if shop.times(format!("stock {sku}")) <= broken {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    tokio::time::sleep(Duration::from_millis(40)).await;
    let count: usize = sku.bytes().map(usize::from).sum::<usize>() % 17;
    Json(json!({ "sku": sku, "in_stock": count })).into_response()
}

/// Never answers the first time.
async fn eta(State(shop): State<Arc<Shop>>, Path(name): Path<String>) -> Response {
    if shop.times(format!("eta {name}")) == 1 {
        std::future::pending::<()>().await;
    }
    Json(json!({ "carrier": name, "days": 2 })).into_response()
}

/// Makes the refund, then fails to say so the first time; a repeated key makes no second one.
async fn refund(State(shop): State<Arc<Shop>>, headers: HeaderMap, Json(body): Json<Value>) -> Response {
    let Some(key) = headers.get("idempotency-key").and_then(|key| key.to_str().ok()) else {
        return (StatusCode::BAD_REQUEST, Json(json!({ "message": "Idempotency-Key is missing" })))
            .into_response();
    };
    let is_new = lock(&shop.refunds).insert(key.to_owned());
    if is_new {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    Json(json!({ "refunded_cents": body.get("cents"), "order": body.get("order") })).into_response()
}

/// The key of this service was revoked.
async fn loyalty() -> Response {
    StatusCode::UNAUTHORIZED.into_response()
}
