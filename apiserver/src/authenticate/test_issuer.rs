//! Signs certificates for tests.

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType,
    ExtendedKeyUsagePurpose, IsCa, KeyPair,
};
use rustls::pki_types::CertificateDer;

/// The type of organizations in a name.
const ORGANIZATION: [u64; 4] = [2, 5, 4, 10];

/// An authority that is not the hub's.
pub(super) struct Issuer(CertifiedIssuer<'static, KeyPair>);

impl Issuer {
    pub(super) fn new(name: &str) -> Self {
        Self::of(name, CertificateParams::default())
    }

    /// One that ends with the first second of a year.
    pub(super) fn good_until(name: &str, year: i32) -> Self {
        let mut params = CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(year, 1, 1);
        Self::of(name, params)
    }

    fn of(name: &str, mut params: CertificateParams) -> Self {
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    pub(super) fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate of a master that is good in the years from `years.0` to `years.1`.
    pub(super) fn signs(
        &self,
        name: &str,
        usage: ExtendedKeyUsagePurpose,
        years: (i32, i32),
    ) -> Vec<CertificateDer<'static>> {
        self.signs_for(name, &["system:masters"], usage, years)
    }

    /// A certificate of a member of up to two groups.
    pub(super) fn signs_for(
        &self,
        name: &str,
        groups: &[&str],
        usage: ExtendedKeyUsagePurpose,
        years: (i32, i32),
    ) -> Vec<CertificateDer<'static>> {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        // rcgen keeps one value of each type.
        let types = [
            DnType::OrganizationName,
            DnType::CustomDnType(ORGANIZATION.to_vec()),
        ];
        assert!(groups.len() <= types.len(), "more than two groups");
        for (kind, group) in types.into_iter().zip(groups) {
            params.distinguished_name.push(kind, *group);
        }
        params.extended_key_usages = vec![usage];
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        let key = KeyPair::generate().unwrap();
        vec![params.signed_by(&key, &self.0).unwrap().into()]
    }
}
