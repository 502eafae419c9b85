//! Leases, what was done outside of any run, and the halt.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Json;
use axum::routing::{get, post};
use control::api;
use serde::Deserialize;

use crate::problem::Problem;
use crate::routes::{Answer, Asked, Body, House, Named};
use crate::use_cases::UseCases;

/// The routes of this module, below `/api/v1`.
pub(crate) fn router<U: UseCases>() -> Router<House<U>> {
    Router::new()
        .route("/leases", get(lease_list::<U>).post(lease_mint::<U>))
        .route("/leases/{lease}", get(lease_fetch::<U>))
        .route("/leases/{lease}/revoke", post(lease_revoke::<U>))
        .route("/roles", get(role_list::<U>))
        .route("/acts", get(act_list::<U>))
        .route("/halt", get(halt_fetch::<U>).post(halt_raise::<U>))
        .route("/halt/lift", post(halt_lift::<U>))
}

#[derive(Deserialize)]
struct All {
    #[serde(default)]
    all: bool,
}

async fn lease_list<U: UseCases>(
    State(house): State<House<U>>,
    Asked(All { all }): Asked<All>,
) -> Answer<Vec<api::Lease>> {
    Ok(Json(house.use_cases.lease_list(all).await?))
}

async fn lease_fetch<U: UseCases>(
    State(house): State<House<U>>,
    Named(lease): Named,
) -> Answer<api::LeaseRecord> {
    Ok(Json(house.use_cases.lease_fetch(&lease).await?))
}

async fn lease_mint<U: UseCases>(
    State(house): State<House<U>>,
    Body(wanted): Body<api::MintLease>,
) -> Result<(StatusCode, Json<api::Minted>), Problem> {
    Ok((StatusCode::CREATED, Json(house.use_cases.lease_mint(wanted).await?)))
}

async fn lease_revoke<U: UseCases>(State(house): State<House<U>>, Named(lease): Named) -> Answer<api::Lease> {
    Ok(Json(house.use_cases.lease_revoke(&lease).await?))
}

async fn role_list<U: UseCases>(State(house): State<House<U>>) -> Answer<Vec<api::Role>> {
    Ok(Json(house.use_cases.role_list().await?))
}

async fn act_list<U: UseCases>(State(house): State<House<U>>) -> Answer<Vec<api::Act>> {
    Ok(Json(house.use_cases.act_list().await?))
}

async fn halt_fetch<U: UseCases>(State(house): State<House<U>>) -> Answer<api::Halt> {
    Ok(Json(house.use_cases.halt_fetch().await?))
}

async fn halt_raise<U: UseCases>(
    State(house): State<House<U>>,
    Body(wanted): Body<api::RaiseHalt>,
) -> Answer<api::Halt> {
    Ok(Json(house.use_cases.halt_raise(wanted).await?))
}

async fn halt_lift<U: UseCases>(State(house): State<House<U>>) -> Answer<api::Halt> {
    Ok(Json(house.use_cases.halt_lift().await?))
}
