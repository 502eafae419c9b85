//! What lies between a caller and its vendor: TLS servers and HTTP proxies on loopback, real in every byte.

mod proxy;
mod tls;

pub use proxy::{Mode, Proxy};
pub use tls::{Authority, Certificate, Front};
