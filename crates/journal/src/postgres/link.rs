//! A connection that is made again when it broke, and the statements that it knows. Each operation
//! is one statement, so that whatever shares a connection never stands inside a transaction of
//! somebody else, and none is open while a model or a tool is waited for.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::time::Instant;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, Connection, Row, Socket, Statement};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresConfig;
use crate::Trouble;

/// How long the server works on one statement, and that it answers only when the disk has it.
const SESSION: &str = "
    SET statement_timeout = '20s';
    SET lock_timeout = '15s';
    SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'";
/// How long an answer is waited for: longer than the server works.
const ANSWER_MAX: Duration = Duration::from_secs(25);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// How long sent bytes may lie unacknowledged before the connection counts as broken.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// How long a statement is repeated while its end is not known.
const REPEAT_MAX: Duration = Duration::from_secs(30);
pub(super) const REPEAT_PAUSE: Duration = Duration::from_millis(200);

pub(super) type TlsStream = <MakeRustlsConnect as tokio_postgres::tls::MakeTlsConnect<Socket>>::Stream;

/// Makes connections.
#[derive(Clone)]
pub(super) struct Connector {
    config: Config,
    tls: MakeRustlsConnect,
}

impl Connector {
    pub(super) fn new(settings: &PostgresConfig) -> Result<Self, Trouble> {
        let bad =
            |error: &dyn std::fmt::Display| Trouble::Fatal(format!("the settings of PostgreSQL: {error}"));
        let mut config: Config = settings.url.parse().map_err(|error| bad(&error))?;
        config
            .target_session_attrs(TargetSessionAttrs::ReadWrite)
            .connect_timeout(CONNECT_MAX)
            .tcp_user_timeout(SILENCE_MAX)
            .keepalives_idle(SILENCE_MAX);
        if config.get_application_name().is_none() {
            config.application_name("dauntless");
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| bad(&error))?;
        let tls = match &settings.root_certificates {
            None if config.get_ssl_mode() != SslMode::Disable => {
                builder.with_platform_verifier().map_err(|error| bad(&error))?
            }
            pem => {
                let mut roots = RootCertStore::empty();
                for certificate in CertificateDer::pem_slice_iter(pem.as_deref().unwrap_or_default()) {
                    roots.add(certificate.map_err(|error| bad(&error))?).map_err(|error| bad(&error))?;
                }
                builder.with_root_certificates(roots)
            }
        };
        Ok(Self { config, tls: MakeRustlsConnect::new(tls.with_no_client_auth()) })
    }

    /// Connects. The connection does nothing until it is polled.
    pub(super) async fn connect(&self) -> Result<(Client, Connection<Socket, TlsStream>), LinkError> {
        let connected = tokio::time::timeout(CONNECT_MAX, self.config.connect(self.tls.clone())).await;
        connected.map_err(|_| LinkError::Silent)?.map_err(LinkError::Said)
    }

    /// Connects, and serves the connection in a task that ends with it.
    pub(super) async fn session(&self) -> Result<Client, LinkError> {
        let (client, connection) = self.connect().await?;
        tokio::spawn(connection);
        answered(client.batch_execute(SESSION)).await?;
        Ok(client)
    }
}

/// Why a statement has no result.
#[derive(Debug)]
pub(super) enum LinkError {
    /// What the driver or the server said.
    Said(tokio_postgres::Error),
    /// Nothing came in time.
    Silent,
}

impl LinkError {
    /// Whether the statement may have been carried out all the same.
    pub(super) fn is_ambiguous(&self) -> bool {
        match self {
            // The server gave an error: the statement is undone. Its own end is another matter.
            Self::Said(error) => error.as_db_error().is_none_or(|said| said.code().code().starts_with("57P")),
            Self::Silent => true,
        }
    }

    /// Whether the server undid it for the sake of another one: of a deadlock, or where one dropped
    /// what the other began to refer to.
    pub(super) fn is_collision(&self) -> bool {
        let undone = |code: &str| matches!(code, "40P01" | "40001" | "23503");
        matches!(self, Self::Said(error) if error.code().is_some_and(|code| undone(code.code())))
    }
}

impl From<LinkError> for Trouble {
    fn from(error: LinkError) -> Self {
        Self::Unavailable(match error {
            LinkError::Silent => "PostgreSQL did not answer in time".to_owned(),
            LinkError::Said(error) => match error.as_db_error() {
                Some(said) => format!("PostgreSQL said: {}", said.message()),
                None => format!("PostgreSQL cannot be reached: {error}"),
            },
        })
    }
}

async fn answered<T>(asked: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, LinkError> {
    match tokio::time::timeout(ANSWER_MAX, asked).await {
        Ok(answer) => answer.map_err(LinkError::Said),
        Err(_) => Err(LinkError::Silent),
    }
}

/// What a statement gave.
pub(super) struct Answer {
    pub(super) rows: Vec<Row>,
    /// Whether an earlier try had an unknown end.
    pub(super) repeated: bool,
}

/// One connection, made when it is first needed and again after it broke.
pub(super) struct Link {
    connector: Connector,
    session: tokio::sync::Mutex<Option<Arc<Session>>>,
}

struct Session {
    client: Client,
    statements: std::sync::Mutex<HashMap<&'static str, Statement>>,
}

impl Link {
    pub(super) fn new(connector: Connector) -> Self {
        Self { connector, session: tokio::sync::Mutex::new(None) }
    }

    async fn session(&self) -> Result<Arc<Session>, LinkError> {
        let mut session = self.session.lock().await;
        if let Some(session) = session.as_ref().filter(|session| !session.client.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let client = self.connector.session().await?;
        let made = Arc::new(Session { client, statements: std::sync::Mutex::default() });
        *session = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Drops a connection that gives no answer, so that the next statement gets another.
    async fn give_up(&self, silent: &Arc<Session>) {
        let mut session = self.session.lock().await;
        if session.as_ref().is_some_and(|current| Arc::ptr_eq(current, silent)) {
            *session = None;
        }
    }

    /// Carries out a statement that may be repeated, and repeats it while its end is not known.
    pub(super) async fn query(
        &self,
        statement: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, LinkError> {
        self.query_again(statement, values).await.map(|answer| answer.rows)
    }

    /// The same, for whoever must know whether an earlier try may have done it.
    pub(super) async fn query_again(
        &self,
        statement: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Answer, LinkError> {
        let give_up_at = Instant::now() + REPEAT_MAX;
        let mut repeated = false;
        loop {
            match self.query_once(statement, values).await {
                Ok(rows) => return Ok(Answer { rows, repeated }),
                Err(error) if error.is_collision() && Instant::now() < give_up_at => {}
                Err(error) if error.is_ambiguous() && Instant::now() < give_up_at => {
                    tokio::time::sleep(REPEAT_PAUSE).await;
                }
                Err(error) => return Err(error),
            }
            repeated = true;
        }
    }

    /// Carries out one statement, once.
    pub(super) async fn query_once(
        &self,
        statement: &'static str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, LinkError> {
        let session = self.session().await?;
        let asked = async {
            let prepared = session.prepared(statement).await?;
            session.client.query(&prepared, values).await
        };
        let answer = answered(asked).await;
        if matches!(answer, Err(LinkError::Silent)) {
            self.give_up(&session).await;
        }
        answer
    }
}

impl Session {
    async fn prepared(&self, statement: &'static str) -> Result<Statement, tokio_postgres::Error> {
        let known = |session: &Self| {
            session.statements.lock().unwrap_or_else(PoisonError::into_inner).get(statement).cloned()
        };
        if let Some(prepared) = known(self) {
            return Ok(prepared);
        }
        let prepared = self.client.prepare(statement).await?;
        self.statements.lock().unwrap_or_else(PoisonError::into_inner).insert(statement, prepared.clone());
        Ok(prepared)
    }
}
