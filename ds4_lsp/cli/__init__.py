"""The terminal's side: chat, doctor, model, sessions."""
