"""Functions that make tokens, for the option ``kafka.sasl.oauthbearer.provider``; of your own: see docs/operate/logins.md."""

from __future__ import annotations

from sparkcohort.runtime.shell.kafka.client_credentials import client_credentials
from sparkcohort.runtime.shell.kafka.msk_iam import msk_iam

__all__ = ["client_credentials", "msk_iam"]
