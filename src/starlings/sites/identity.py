"""The folder of a site, NAME-site, with the private key that never leaves it.

site.key           the private key (P-256), readable by its owner only, not encrypted: a site
                   that restarts by itself has nobody to type a passphrase
certificate.pem    its certificate, from the newest kit that was approved
authority.pem      the authority that the site trusts since its first approval
TRIAL.manifest     the newest manifest that was seen, so that an older one is noticed
revoked.list       the newest list of revoked certificates that was seen
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlings.errors import SiteError
from starlings.sites.certificates import certificate_request
from starlings.sites.keys import is_private, load_key, new_key, private_folder, save_key
from starlings.sites.site_names import check_site_name


@dataclass(frozen=True)
class SiteHome:
    """The folder of one site."""

    path: Path

    @classmethod
    def beside(cls, file: Path, site: str) -> SiteHome:
        """The folder of a site in the folder of a file."""
        return cls(file.parent / f"{check_site_name(site, str(file))}-site")

    @classmethod
    def find(cls, kit: Path, site: str) -> SiteHome:
        """The folder of a site, beside its kit, one level above, or in the current folder.

        If there is none, the one beside the kit is returned, which does not exist.
        """
        places = [kit.parent, kit.absolute().parent.parent, Path.cwd()]
        homes = [cls(place / f"{site}-site") for place in places]
        return next((home for home in homes if home.key_path.is_file()), homes[0])

    @property
    def key_path(self) -> Path:
        """The file of the private key."""
        return self.path / "site.key"

    @property
    def certificate_path(self) -> Path:
        """The file of the certificate."""
        return self.path / "certificate.pem"

    @property
    def authority_path(self) -> Path:
        """The file of the authority's certificate."""
        return self.path / "authority.pem"

    def approval_path(self, site: str) -> Path:
        """The file of the approval that this site has signed."""
        return self.path / f"{site}.approval"

    def key(self) -> Any:
        """The private key; one that others can read is refused."""
        if not self.key_path.is_file():
            raise SiteError(
                f"there is no private key at {self.key_path}. It is made by `starlings site "
                "request` and stays on that machine; name its folder with `--folder`."
            )
        if not is_private(self.key_path):
            raise SiteError(
                f"{self.key_path} can be read by others on this machine. Run `chmod 600 "
                f"{self.key_path}`; if somebody may have copied it, ask for another certificate."
            )
        return load_key(self.key_path)


def make_request(home: SiteHome, site: str) -> tuple[bytes, Any]:
    """The request of a site, in PEM, and its public key; the private key is made if there is none.

    Args:
        home: the folder of the site, which is made if it does not exist.
        site: its name.
    """
    private_folder(home.path)
    if not home.key_path.exists():
        save_key(home.key_path, new_key())
    key = home.key()
    return certificate_request(key, site), key.public_key()
