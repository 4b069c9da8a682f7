Bonnx::Transpose_40JPÃ>øú¿f±î=±Jx?ùDH? Ì
½z·A¾„9?%f\?Œ‚*¾,)b½Wƒ4?ÐDÔ>vk^>½¦Ä¾ðœx?Æ)@<hY¾CÈ½Œ4,¿