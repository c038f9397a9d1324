CREATE TRIGGER audit_final BEFORE DELETE OR UPDATE ON public.audit FOR EACH ROW EXECUTE FUNCTION shoal_refuse()
CREATE TRIGGER audit_no_truncate BEFORE TRUNCATE ON public.audit FOR EACH STATEMENT EXECUTE FUNCTION shoal_refuse()
CREATE TRIGGER campaigns_final BEFORE DELETE ON public.campaigns FOR EACH ROW EXECUTE FUNCTION shoal_refuse()
CREATE TRIGGER campaigns_forward BEFORE UPDATE ON public.campaigns FOR EACH ROW EXECUTE FUNCTION shoal_campaigns_forward()
CREATE TRIGGER campaigns_no_truncate BEFORE TRUNCATE ON public.campaigns FOR EACH STATEMENT EXECUTE FUNCTION shoal_refuse()
CREATE TRIGGER contributions_collecting BEFORE INSERT OR DELETE OR UPDATE ON public.contributions FOR EACH ROW EXECUTE FUNCTION shoal_collecting()
CREATE TRIGGER plans_final BEFORE DELETE OR UPDATE ON public.plans FOR EACH ROW EXECUTE FUNCTION shoal_refuse()
CREATE TRIGGER plans_no_truncate BEFORE TRUNCATE ON public.plans FOR EACH STATEMENT EXECUTE FUNCTION shoal_refuse()
CREATE TRIGGER releases_final BEFORE DELETE OR UPDATE ON public.releases FOR EACH ROW EXECUTE FUNCTION shoal_refuse()
CREATE TRIGGER releases_no_truncate BEFORE TRUNCATE ON public.releases FOR EACH STATEMENT EXECUTE FUNCTION shoal_refuse()
CREATE TRIGGER tokens_final BEFORE DELETE ON public.tokens FOR EACH ROW EXECUTE FUNCTION shoal_refuse()
CREATE TRIGGER tokens_forward BEFORE UPDATE ON public.tokens FOR EACH ROW EXECUTE FUNCTION shoal_tokens_forward()
CREATE TRIGGER tokens_no_truncate BEFORE TRUNCATE ON public.tokens FOR EACH STATEMENT EXECUTE FUNCTION shoal_refuse()
audit fk_audit_token_id FOREIGN KEY (token_id) REFERENCES tokens(id)
audit pk_audit PRIMARY KEY (number)
audit.action character varying(60) not null
audit.at character varying(32) not null
audit.number bigint not null
audit.outcome integer not null
audit.role character varying(10) not null
audit.subject character varying(200) not null
audit.token_id bigint not null
campaigns ck_campaigns_state CHECK (((state)::text = ANY ((ARRAY['draft'::character varying, 'collecting'::character varying, 'planned'::character varying, 'closed'::character varying])::text[])))
campaigns pk_campaigns PRIMARY KEY (id)
campaigns.arrangement character varying(20) not null
campaigns.created_at character varying(32) not null
campaigns.delta double precision not null
campaigns.domain text not null
campaigns.eta double precision not null
campaigns.id bigint not null default nextval('campaigns_id_seq'::regclass)
campaigns.least double precision not null
campaigns.model character varying(40) not null
campaigns.name character varying(200) not null
campaigns.point_order character varying(20) not null
campaigns.records character varying(10) not null
campaigns.revision bigint not null
campaigns.state character varying(10) not null
contributions fk_contributions_campaign_id FOREIGN KEY (campaign_id) REFERENCES campaigns(id)
contributions fk_contributions_token_id FOREIGN KEY (token_id) REFERENCES tokens(id)
contributions pk_contributions PRIMARY KEY (id)
contributions uq_contributions_campaign_id_owner UNIQUE (campaign_id, owner)
contributions.at character varying(32) not null
contributions.campaign_id bigint not null
contributions.data bytea not null
contributions.id bigint not null default nextval('contributions_id_seq'::regclass)
contributions.owner character varying(200) not null
contributions.records bigint not null
contributions.rows bigint not null
contributions.token_id bigint not null
distributions fk_distributions_campaign_id FOREIGN KEY (campaign_id) REFERENCES campaigns(id)
distributions pk_distributions PRIMARY KEY (campaign_id)
distributions.at character varying(32) not null
distributions.campaign_id bigint not null
distributions.data bytea not null
distributions.rows bigint not null
linkages fk_linkages_campaign_id FOREIGN KEY (campaign_id) REFERENCES campaigns(id)
linkages pk_linkages PRIMARY KEY (campaign_id)
linkages.campaign_id bigint not null
linkages.data bytea not null
linkages.l bigint not null
linkages.releases bigint not null
plans fk_plans_campaign_id FOREIGN KEY (campaign_id) REFERENCES campaigns(id)
plans pk_plans PRIMARY KEY (campaign_id)
plans.at character varying(32) not null
plans.campaign_id bigint not null
plans.classes bigint not null
plans.digest character varying(64) not null
plans.document text not null
plans.m double precision not null
plans.n bigint not null
plans.n_tight bigint not null
plans.p double precision not null
plans.records bigint not null
releases fk_releases_campaign_id FOREIGN KEY (campaign_id) REFERENCES campaigns(id)
releases fk_releases_token_id FOREIGN KEY (token_id) REFERENCES tokens(id)
releases pk_releases PRIMARY KEY (id)
releases uq_releases_campaign_id_owner_files_digest UNIQUE (campaign_id, owner, files_digest)
releases.achieved double precision
releases.at character varying(32) not null
releases.campaign_id bigint not null
releases.counts bytea
releases.files text not null
releases.files_digest character varying(64) not null
releases.id bigint not null default nextval('releases_id_seq'::regclass)
releases.manifest text not null
releases.owner character varying(200) not null
releases.rows bigint not null
releases.token_id bigint not null
reports fk_reports_campaign_id FOREIGN KEY (campaign_id) REFERENCES campaigns(id)
reports fk_reports_token_id FOREIGN KEY (token_id) REFERENCES tokens(id)
reports pk_reports PRIMARY KEY (id)
reports uq_reports_campaign_id_owner UNIQUE (campaign_id, owner)
reports.at character varying(32) not null
reports.campaign_id bigint not null
reports.id bigint not null default nextval('reports_id_seq'::regclass)
reports.owner character varying(200) not null
reports.records bigint not null
reports.token_id bigint not null
requests ck_requests_state CHECK (((state)::text = ANY ((ARRAY['open'::character varying, 'approved'::character varying, 'refused'::character varying])::text[])))
requests fk_requests_campaign_id FOREIGN KEY (campaign_id) REFERENCES campaigns(id)
requests fk_requests_token_id FOREIGN KEY (token_id) REFERENCES tokens(id)
requests pk_requests PRIMARY KEY (id)
requests.at character varying(32) not null
requests.attributes text not null
requests.campaign_id bigint
requests.client character varying(200) not null
requests.decided_at character varying(32)
requests.delta double precision
requests.id bigint not null default nextval('requests_id_seq'::regclass)
requests.l double precision
requests.purpose text not null
requests.reason text not null
requests.state character varying(10) not null
requests.token_id bigint not null
shoal_campaigns_forward  BEGIN IF (CASE NEW.state WHEN 'draft' THEN 0 WHEN 'collecting' THEN 1 WHEN 'planned' THEN 2 WHEN 'closed' THEN 3 END < CASE OLD.state WHEN 'draft' THEN 0 WHEN 'collecting' THEN 1 WHEN 'planned' THEN 2 WHEN 'closed' THEN 3 END OR NEW.id IS DISTINCT FROM OLD.id OR NEW.name IS DISTINCT FROM OLD.name OR NEW.domain IS DISTINCT FROM OLD.domain OR NEW.model IS DISTINCT FROM OLD.model OR NEW.least IS DISTINCT FROM OLD.least OR NEW.delta IS DISTINCT FROM OLD.delta OR NEW.eta IS DISTINCT FROM OLD.eta OR NEW.point_order IS DISTINCT FROM OLD.point_order OR NEW.arrangement IS DISTINCT FROM OLD.arrangement OR NEW.records IS DISTINCT FROM OLD.records OR NEW.created_at IS DISTINCT FROM OLD.created_at) THEN RAISE EXCEPTION 'campaigns never go back and are not redefined' USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN COALESCE(NEW, OLD); END
shoal_collecting  BEGIN IF ((SELECT state FROM campaigns WHERE id = COALESCE(NEW.campaign_id, OLD.campaign_id)) IS DISTINCT FROM 'collecting') THEN RAISE EXCEPTION 'the campaign is not collecting' USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN COALESCE(NEW, OLD); END
shoal_refuse  BEGIN IF (TRUE) THEN RAISE EXCEPTION 'rows of this table are final' USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN COALESCE(NEW, OLD); END
shoal_tokens_forward  BEGIN IF (OLD.revoked_at IS NOT NULL AND NEW.revoked_at IS NULL OR NEW.id IS DISTINCT FROM OLD.id OR NEW.name IS DISTINCT FROM OLD.name OR NEW.role IS DISTINCT FROM OLD.role OR NEW.digest IS DISTINCT FROM OLD.digest OR NEW.created_at IS DISTINCT FROM OLD.created_at) THEN RAISE EXCEPTION 'tokens never go back and are not redefined' USING ERRCODE = 'integrity_constraint_violation'; END IF; RETURN COALESCE(NEW, OLD); END
tokens ck_tokens_role CHECK (((role)::text = ANY ((ARRAY['agency'::character varying, 'owner'::character varying, 'client'::character varying])::text[])))
tokens pk_tokens PRIMARY KEY (id)
tokens uq_tokens_digest UNIQUE (digest)
tokens.created_at character varying(32) not null
tokens.digest character varying(64) not null
tokens.expires_at character varying(32) not null
tokens.id bigint not null default nextval('tokens_id_seq'::regclass)
tokens.name character varying(200) not null
tokens.revoked_at character varying(32)
tokens.role character varying(10) not null
