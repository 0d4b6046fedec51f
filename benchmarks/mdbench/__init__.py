"""MDBench's protocol for ordinary differential equations."""
