//! Every refusal as one problem document (RFC 9457), those of the HTTP layer included.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use control::{Error, api};

/// A refused request.
#[derive(Debug)]
pub(crate) struct Problem(pub(crate) api::Problem);

impl Problem {
    pub(crate) fn new(status: StatusCode, code: &str, detail: impl Into<String>, hint: &str) -> Self {
        Self(api::Problem {
            status: status.as_u16(),
            code: code.into(),
            detail: detail.into(),
            hint: Some(hint.into()),
        })
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        Self(error.problem())
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, axum::Json(self.0)).into_response();
        let kind = HeaderValue::from_static("application/problem+json");
        response.headers_mut().insert(header::CONTENT_TYPE, kind);
        response
    }
}
