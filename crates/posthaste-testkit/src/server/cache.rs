//! Things that are fetched or built once, and kept in the user's cache, which outlives the clone.

use super::{Error, Result};
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};

/// A directory of the cache that `make` has filled, now or long ago. Another `key` is another
/// directory, so that several checkouts get on with each other.
pub(super) fn once(
    kind: &str,
    key: &str,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    let cache = cache()?;
    let home = cache.join(format!("{kind}-{:016x}", hasher.finish()));
    let complete = home.join("complete");
    if complete.exists() {
        return Ok(home);
    }
    fs::create_dir_all(&cache).map_err(Error::doing(format!("making {}", cache.display())))?;
    let lock = fs::File::create(cache.join(format!("{kind}.lock")))
        .and_then(|file| file.lock().map(|()| file))
        .map_err(Error::doing("waiting for another installation"))?;
    // Whoever had the lock may have done it.
    if !complete.exists() {
        // What somebody left half done would be in the way.
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).map_err(Error::doing(format!("making {}", home.display())))?;
        make(&home)?;
        fs::File::create(complete).map_err(Error::doing("ending the installation"))?;
    }
    drop(lock);
    Ok(home)
}

fn cache() -> Result<PathBuf> {
    let given = env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty());
    let cache = given
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    cache
        .map(|cache| cache.join("posthaste"))
        .ok_or_else(|| Error::new("there is no place to keep things: set XDG_CACHE_HOME"))
}
