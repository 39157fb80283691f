//! A look at a server that adds nothing to any stream: whether events could be delivered, and what
//! an acknowledgement would mean.

use std::collections::BTreeMap;

use ::redis::{Cmd, FromRedisValue, Value};

use super::answer::told;
use super::link::{Connection, Place};
use crate::template::Template;

pub(super) async fn look(place: &Place, key: &Template) -> Result<String, String> {
    let server = Server {
        connection: Connection::open(place).await?,
        info: BTreeMap::new(),
    };
    let server = server.introduced().await?;
    if server.says("cluster_enabled") == Some("1") {
        return Err("this is a Redis Cluster, which is not supported".to_owned());
    }
    if server.says("loading") == Some("1") {
        return Err("the server is still loading its data".to_owned());
    }
    if server.says("role") == Some("slave") {
        return Err("the server is a replica, which takes no writes: name the primary".to_owned());
    }
    if server.says("aof_last_write_status") == Some("err") {
        return Err("the server cannot write to its disk, and refuses all writes".to_owned());
    }
    if let Some(key) = key.fixed() {
        server.check_stream(key).await?;
    }
    let version = server.says("redis_version").unwrap_or("of unknown version");
    let (durability, eviction) = (server.durability().await, server.eviction());
    let longest = server.connection.longest;
    Ok(format!(
        "Redis {version} at {place}, bodies of up to {longest} bytes; {durability}{eviction}"
    ))
}

struct Server {
    connection: Connection,
    /// What `INFO` says.
    info: BTreeMap<String, String>,
}

impl Server {
    async fn introduced(mut self) -> Result<Self, String> {
        let info: String = self.ask(&["INFO"]).await?;
        let lines = info.lines().filter_map(|line| line.split_once(':'));
        self.info = lines
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .collect();
        Ok(self)
    }

    fn says(&self, name: &str) -> Option<&str> {
        self.info.get(name).map(String::as_str)
    }

    async fn ask<T: FromRedisValue>(&self, words: &[&str]) -> Result<T, String> {
        let mut command = Cmd::new();
        for word in words {
            command.arg(word);
        }
        let answer = match self.connection.ask(&command).await {
            Ok(Value::ServerError(error)) => Err(told(&error.into())),
            Ok(answer) => Ok(answer),
            Err(error) => Err(told(&error)),
        };
        let answer = answer.map_err(|why| format!("{} was refused: {why}", words[0]))?;
        ::redis::from_redis_value(answer)
            .map_err(|_| format!("{} was answered in an unknown way", words[0]))
    }

    /// A setting, if it may be seen.
    async fn setting(&self, name: &str) -> Option<String> {
        let found: Vec<String> = self.ask(&["CONFIG", "GET", name]).await.ok()?;
        found.into_iter().nth(1)
    }

    /// Whether the stream can be added to: it is one, or not there yet, and this user has the right.
    async fn check_stream(&self, key: &str) -> Result<(), String> {
        let kind: Result<String, String> = self.ask(&["TYPE", key]).await;
        if let Ok(kind) = kind
            && kind != "stream"
            && kind != "none"
        {
            return Err(format!("key {key:?} is a {kind}, and no stream"));
        }
        let Ok(user) = self.ask::<String>(&["ACL", "WHOAMI"]).await else {
            return Ok(());
        };
        let dry = ["ACL", "DRYRUN", &*user, "XADD", key, "*", "a", "b"];
        match self.ask::<String>(&dry).await {
            Ok(answer) if answer != "OK" => {
                Err(format!("user {user:?} may not add to it: {answer}"))
            }
            // Whoever may not ask will see.
            _ => Ok(()),
        }
    }

    async fn durability(&self) -> &'static str {
        match (self.says("aof_enabled"), self.setting("appendfsync").await) {
            (Some("0"), _) => {
                "an acknowledged event is in memory only (appendonly no): \
                 it is lost with the server unless a snapshot was taken since"
            }
            (_, Some(when)) if when == "always" => {
                "an acknowledged event is on the server's disk (appendonly yes, appendfsync always)"
            }
            (_, Some(when)) if when == "everysec" => {
                "an acknowledged event is on the server's disk about a second later \
                 (appendonly yes, appendfsync everysec)"
            }
            (_, Some(_)) => {
                "an acknowledged event is on the server's disk when its system sees fit \
                 (appendonly yes, appendfsync no)"
            }
            (_, None) => {
                "an acknowledged event is in the server's append-only file, \
                 but how soon on its disk may not be seen (appendfsync)"
            }
        }
    }

    fn eviction(&self) -> &'static str {
        let limited = self.says("maxmemory").is_some_and(|limit| limit != "0");
        match self.says("maxmemory_policy") {
            Some(policy) if limited && policy.starts_with("allkeys") => {
                "; beware: when its memory is full, the server removes whole streams (maxmemory-policy)"
            }
            _ => "",
        }
    }
}
